import Callers
import Glibc
import Storage
import Synchronization

/// How an operation may be done.
enum OperationKind {
  /// In a transaction of its own.
  case alone
  /// It changes a few rows: in one transaction with others of its kind.
  case change
  /// One statement that only reads: sent together with others of its kind.
  case lookup
}

/// Why an operation waits once more of which nothing was done.
enum OperationReturn {
  /// There was no time for it.
  case left
  /// The transaction that it was in with others failed: it is done by itself.
  case undone
  /// The connection was lost.
  case untouched
}

/// What became of an operation that was done by itself.
enum OperationEnd {
  /// The caller was answered.
  case answered
  /// The connection was lost before anything was done, and another may do it.
  case untouched
  /// It kept its result, which holds if this was committed.
  case unknown(CommitMark, StorageError)
}

/// One waiting operation as the pool sees it, whatever its result is.
protocol QueuedOperation: AnyObject, Sendable {
  /// When it was asked for.
  var asked: ContinuousClock.Instant { get }
  /// After this nobody wants the answer.
  var deadline: ContinuousClock.Instant? { get }
  /// Goes before all others, and however many there are.
  var isUrgent: Bool { get }
  /// Is taken however much waits; see ``CallPlace/isOwed``.
  var isOwed: Bool { get }
  /// Whose it is; see ``CallPlace/holder``.
  var holder: NetworkAddress? { get }
  /// Does not change while it waits.
  var kind: OperationKind { get }
  /// What it is about. Of two in a group that are about the same the second begins when the first has ended, or was sent if that
  /// is one statement.
  var rows: [String] { get }
  /// Takes it on, before `run` or `join`. False: the caller went away or became late while it waited, and was answered.
  func begin() -> Bool
  /// Does the work by itself and answers the caller, or says why not. Never suspends.
  func run(on connection: PostgreSQLConnection) async -> OperationEnd
  /// Writes its statement down and keeps the result once that is settled, if a statement is all of it.
  func send(to connection: PostgreSQLConnection) throws(StorageError) -> Bool
  /// Does the work in a transaction of several, and keeps the result. Suspends for answers, where the connection has rounds.
  func join(_ connection: PostgreSQLConnection) async throws(StorageError)
  /// Answers the caller: with `failure`, or with the result that `join` kept.
  func finish(_ failure: StorageError?)
  /// Has one that was taken on wait once more.
  func goBack(_ why: OperationReturn)
  /// Answers the caller that it was not done, if it waits.
  func refuse(_ error: StorageError)
}

/// One statement that is all of an operation.
struct PostgreSQLStatement<Value: Sendable>: Sendable {
  let sql: String
  let values: [PostgreSQLValue]
  let read: @Sendable (PostgreSQLResult) throws(StorageError) -> Value

  func value(_ result: PostgreSQLResult) -> Result<Value, StorageError> {
    do throws(StorageError) {
      return .success(try read(result))
    } catch {
      return .failure(error)
    }
  }
}

/// One operation from the call to its answer.
///
/// ```
/// new ──▶ waiting ◀──▶ running ──▶ answered
///  └─────────┴── cancel ──────────────▲
/// ```
/// One that runs is finished, whoever went away meanwhile: its caller must learn whether the change was made.
final class PostgreSQLOperation<Value: Sendable>: QueuedOperation {
  typealias Body = @Sendable (PostgreSQLConnection) async throws(StorageError) -> Value
  typealias Answer = CheckedContinuation<Result<Value, StorageError>, Never>

  enum Work: Sendable {
    case body(Body)
    case statement(PostgreSQLStatement<Value>)
    case question(PostgreSQLRowQuestion, read: @Sendable (PostgreSQLRow?) throws(StorageError) -> Value)
  }

  private enum Phase: Sendable {
    case new
    case waiting(Answer)
    /// With the result once it is there, which holds when it is committed.
    case running(Answer, Result<Value, StorageError>?)
    case answered
  }

  private struct State: Sendable {
    var phase = Phase.new
    var isAlone: Bool
    /// How often a connection was lost under it.
    var losses = 0
  }

  let asked = ContinuousClock.now
  let isUrgent: Bool
  let holder = CallPlace.current?.holder
  let isOwed = CallPlace.current?.isOwed ?? false
  private let name: String
  private let isReading: Bool
  private let work: Work
  let rows: [String]
  let deadline: ContinuousClock.Instant?
  private let state: Mutex<State>

  init(
    name: String,
    isReading: Bool,
    isUrgent: Bool = false,
    about rows: [String]? = nil,
    deadline: ContinuousClock.Instant? = CallDeadline.current,
    work: Work
  ) {
    self.name = name
    self.isReading = isReading
    self.isUrgent = isUrgent
    self.deadline = deadline
    self.work = work
    self.rows = rows ?? []
    state = Mutex(State(isAlone: rows == nil || isUrgent))
  }

  var kind: OperationKind { state.withLock { $0.isAlone } ? .alone : isReading ? .lookup : .change }

  /// Waits for a connection of `pool` and returns what became of it.
  func perform(in pool: PostgreSQLPool) async throws(StorageError) -> Value {
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { answer in enqueue(answer, in: pool) }
    } onCancel: {
      cancel()
    }
    return try result.get()
  }

  private func enqueue(_ answer: Answer, in pool: PostgreSQLPool) {
    let isCancelled = state.withLock { state in
      guard case .new = state.phase else { return true }
      state.phase = .waiting(answer)
      return false
    }
    if isCancelled {
      answer.resume(returning: .failure(StorageError(.cancelled, operation: name)))
    } else if isLate {
      refuse(late)
    } else if let fault = pool.push(self) {
      // In the task of the call still.
      if fault == .overloaded { CallPlace.current?.gate?.shut(while: pool.backlog) }
      refuse(StorageError(fault, operation: name))
    }
  }

  private func cancel() {
    let waiter: Answer? = state.withLock { state in
      switch state.phase {
      case .new:
        state.phase = .answered
        return nil
      case .waiting(let answer):
        state.phase = .answered
        return answer
      case .running, .answered: return nil
      }
    }
    waiter?.resume(returning: .failure(StorageError(.cancelled, operation: name)))
  }

  private var isLate: Bool { deadline.map { $0 <= .now } ?? false }

  private var late: StorageError { StorageError(.overloaded, operation: name, detail: "the deadline passed") }

  func begin() -> Bool {
    if isLate {
      refuse(late)
      return false
    }
    return state.withLock { state in
      guard case .waiting(let answer) = state.phase else { return false }
      state.phase = .running(answer, nil)
      return true
    }
  }

  func run(on connection: PostgreSQLConnection) async -> OperationEnd {
    let end = await attempts(on: connection)
    if case .answered = end { finish(nil) }
    return end
  }

  func join(_ connection: PostgreSQLConnection) async throws(StorageError) {
    if try send(to: connection) { return }
    if case .body(let body) = work { keep(.success(try await body(connection))) }
  }

  func send(to connection: PostgreSQLConnection) throws(StorageError) -> Bool {
    connection.operation = name
    switch work {
    case .body: return false
    case .statement(let statement):
      try connection.send(statement.sql, statement.values) { [self] result in keep(statement.value(result)) }
    case .question(let question, let read):
      try connection.ask(question) { [self] row in
        do throws(StorageError) {
          keep(.success(try read(row)))
        } catch {
          keep(.failure(error))
        }
      }
    }
    return true
  }

  private func keep(_ result: Result<Value, StorageError>?) {
    state.withLock { state in
      if case .running(let answer, _) = state.phase { state.phase = .running(answer, result) }
    }
  }

  func finish(_ failure: StorageError?) {
    let ending: (Answer, Result<Value, StorageError>?)? = state.withLock { state in
      guard case .running(let answer, let result) = state.phase else { return nil }
      state.phase = .answered
      return (answer, result)
    }
    guard let (answer, result) = ending else { return }
    if let failure {
      answer.resume(returning: .failure(StorageError(failure.fault, operation: name, detail: failure.detail)))
    } else {
      answer.resume(
        returning: result
          ?? .failure(StorageError(.outcomeUnknown, operation: name, detail: "it was done, and its answer is lost")))
    }
  }

  func goBack(_ why: OperationReturn) {
    let isTooOften = state.withLock { state in
      if why == .untouched { state.losses += 1 }
      if state.losses > Limits.losses { return true }
      if why == .undone { state.isAlone = true }
      if case .running(let answer, _) = state.phase { state.phase = .waiting(answer) }
      return false
    }
    if isTooOften {
      finish(StorageError(.unavailable, operation: name, detail: "connections to the database end again and again"))
    }
  }

  func refuse(_ error: StorageError) {
    let waiter: Answer? = state.withLock { state in
      guard case .waiting(let answer) = state.phase else { return nil }
      state.phase = .answered
      return answer
    }
    waiter?.resume(returning: .failure(StorageError(error.fault, operation: name, detail: error.detail)))
  }

  // MARK: By itself

  /// Keeps the result, unless the connection was lost before anything was done.
  private func attempts(on connection: PostgreSQLConnection) async -> OperationEnd {
    connection.operation = name
    var pause = Limits.retryMilliseconds
    for attempt in 0... {
      do throws(StorageError) {
        try await self.once(on: connection)
        return .answered
      } catch {
        connection.rollBack()
        if error.fault == .outcomeUnknown {
          // A sign of life is worth nothing later.
          if !isUrgent, let mark = connection.unknown { return .unknown(mark, error) }
        } else if connection.isUntouched {
          return .untouched
        }
        let isInTheWay = connection.hasConflict || error.fault == .superseded
        guard isInTheWay, !connection.isBroken, attempt < Limits.retries else {
          keep(.failure(error))
          return .answered
        }
      }
      // The thread is the engine's own, and the transaction over.
      usleep(UInt32.random(in: 500...UInt32(pause * 1000)))
      pause *= 2
    }
    preconditionFailure("the last attempt returns")
  }

  private func once(on connection: PostgreSQLConnection) async throws(StorageError) {
    // What an attempt before had for a result.
    keep(nil)
    switch work {
    case .statement(let statement) where isReading:
      let result = try connection.only(statement.sql, statement.values, isReading: true)
      keep(.success(try statement.read(result)))
    case .question(let question, let read) where isReading:
      let result = try connection.only(question.statement.one, question.values, isReading: true)
      keep(.success(try read(result.firstRow)))
    case .statement, .question:
      connection.begin(isReading: false)
      try await join(connection)
      try connection.commit()
    case .body:
      connection.begin(isReading: isReading)
      try await join(connection)
      // What was read is as good whatever becomes of the connection then.
      if isReading { try connection.endReading() } else { try connection.commit() }
    }
  }
}
