import Callers
import Glibc
import Storage
import Synchronization

/// One waiting operation as the pool sees it, whatever its result is.
protocol QueuedOperation: AnyObject, Sendable {
  /// When it was asked for.
  var asked: ContinuousClock.Instant { get }
  /// Goes before all others, and however many there are.
  var isUrgent: Bool { get }
  /// Does the work and answers the caller. Never suspends. False: the connection was already lost before the work began,
  /// and another may do it.
  func run(on connection: PostgreSQLConnection) async -> Bool
  /// Answers the caller that it was not done.
  func refuse(_ error: StorageError)
}

/// One operation from the call to its answer.
///
/// ```
/// new ──▶ waiting ──▶ running ──▶ answered
///  └─────────┴── cancel ──────────────▲
/// ```
/// One that runs is finished, whoever went away meanwhile: its caller must learn whether the change was made.
final class PostgreSQLOperation<Value: Sendable>: QueuedOperation {
  typealias Body = @Sendable (PostgreSQLConnection) async throws(StorageError) -> Value
  typealias Answer = CheckedContinuation<Result<Value, StorageError>, Never>

  private enum State: Sendable {
    case new
    case waiting(Answer)
    case running(Answer)
    case answered
  }

  let asked = ContinuousClock.now
  let isUrgent: Bool
  private let name: String
  private let isReading: Bool
  private let body: Body
  /// After this nobody wants the answer.
  private let deadline: ContinuousClock.Instant?
  private let state = Mutex<State>(.new)

  init(
    name: String,
    isReading: Bool,
    isUrgent: Bool = false,
    deadline: ContinuousClock.Instant? = CallDeadline.current,
    body: @escaping Body
  ) {
    self.name = name
    self.isReading = isReading
    self.isUrgent = isUrgent
    self.deadline = deadline
    self.body = body
  }

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
      guard case .new = state else { return true }
      state = .waiting(answer)
      return false
    }
    if isCancelled {
      answer.resume(returning: .failure(StorageError(.cancelled, operation: name)))
    } else if isLate {
      refuse(late)
    } else if let fault = pool.push(self) {
      refuse(StorageError(fault, operation: name))
    }
  }

  private func cancel() {
    let waiter: Answer? = state.withLock { state in
      switch state {
      case .new:
        state = .answered
        return nil
      case .waiting(let answer):
        state = .answered
        return answer
      case .running, .answered: return nil
      }
    }
    waiter?.resume(returning: .failure(StorageError(.cancelled, operation: name)))
  }

  private var isLate: Bool { deadline.map { $0 <= .now } ?? false }

  private var late: StorageError { StorageError(.overloaded, operation: name, detail: "the deadline passed") }

  func run(on connection: PostgreSQLConnection) async -> Bool {
    if isLate {
      refuse(late)
      return true
    }
    let answer: Answer? = state.withLock { state in
      guard case .waiting(let answer) = state else { return nil }
      state = .running(answer)
      return answer
    }
    guard let answer else { return true }
    guard let result = await attempts(on: connection) else {
      state.withLock { $0 = .waiting(answer) }
      return false
    }
    state.withLock { $0 = .answered }
    answer.resume(returning: result)
    return true
  }

  func refuse(_ error: StorageError) {
    let waiter: Answer? = state.withLock { state in
      guard case .waiting(let answer) = state else { return nil }
      state = .answered
      return answer
    }
    waiter?.resume(returning: .failure(StorageError(error.fault, operation: name, detail: error.detail)))
  }

  /// Nil when the connection was lost before anything was done.
  private func attempts(on connection: PostgreSQLConnection) async -> Result<Value, StorageError>? {
    connection.operation = name
    var pause = Limits.retryMilliseconds
    for attempt in 0... {
      do throws(StorageError) {
        try connection.begin(isReading: isReading)
      } catch {
        return connection.isBroken ? nil : .failure(error)
      }
      do throws(StorageError) {
        let value = try await body(connection)
        if isReading {
          // There is nothing to keep, and the value is as good whatever becomes of the connection.
          connection.rollBack()
        } else {
          try connection.commit()
        }
        return .success(value)
      } catch {
        connection.rollBack()
        let isInTheWay = connection.hasConflict || error.fault == .superseded
        guard isInTheWay, !connection.isBroken, attempt < Limits.retries else { return .failure(error) }
      }
      // The thread is the engine's own, and the transaction over.
      usleep(UInt32.random(in: 500...UInt32(pause * 1000)))
      pause *= 2
    }
    preconditionFailure("the last attempt returns")
  }
}
