import Callers
import Storage
import Synchronization

/// One waiting operation as the threads see it, whatever its result is.
protocol QueuedOperation: AnyObject, Sendable {
  /// False: the caller went away or became late while it waited, and has been answered.
  func begin(on connection: SQLiteConnection, at now: ContinuousClock.Instant) -> Bool
  /// Does the work and keeps its result. Returns the error that it ended with. Never suspends.
  func run(on connection: SQLiteConnection) async -> StorageError?
  /// Answers the caller: with `failure`, or with the result that `run` kept.
  func finish(_ failure: StorageError?)
}

/// One operation from the call to its answer.
///
/// ```
/// new ──▶ waiting ──▶ running ──▶ answered
///  └─────────┴── cancel, late ────────▲
/// ```
/// A cancelled reader that already runs is interrupted; a cancelled writer that already runs is finished, because its
/// caller must learn whether the change was made.
final class SQLiteOperation<Value: Sendable>: QueuedOperation {
  /// May be `async` so that it can be written for engines that are far away as well; here it awaits nothing that suspends.
  typealias Body = @Sendable (SQLiteConnection) async throws(StorageError) -> Value
  typealias Answer = CheckedContinuation<Result<Value, StorageError>, Never>

  private enum State: Sendable {
    case new
    case waiting(Answer)
    case running(Answer, SQLiteInterrupt, Result<Value, StorageError>?)
    case answered
  }

  private let name: String
  private let isInterruptible: Bool
  private let body: Body
  /// After this nobody wants the answer.
  private let deadline: ContinuousClock.Instant?
  private let state = Mutex<State>(.new)

  init(
    name: String,
    isInterruptible: Bool,
    deadline: ContinuousClock.Instant? = CallDeadline.current,
    body: @escaping Body
  ) {
    self.name = name
    self.isInterruptible = isInterruptible
    self.deadline = deadline
    self.body = body
  }

  /// Waits in `queue` and returns what became of it.
  func perform(in queue: BlockingQueue<any QueuedOperation>) async throws(StorageError) -> Value {
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { answer in enqueue(answer, in: queue) }
    } onCancel: {
      cancel()
    }
    return try result.get()
  }

  private func enqueue(_ answer: Answer, in queue: BlockingQueue<any QueuedOperation>) {
    let isCancelled = state.withLock { state in
      guard case .new = state else { return true }
      state = .waiting(answer)
      return false
    }
    if isCancelled {
      answer.resume(returning: .failure(StorageError(.cancelled, operation: name)))
      return
    }
    let now = ContinuousClock.now
    if isLate(at: now) { return finish(late) }
    let place = CallPlace.current
    switch queue.push(self, of: place?.holder, isOwed: place?.isOwed ?? false, at: now) {
    case .accepted: break
    case .full:
      // In the task of the call still.
      place?.gate?.shut(while: queue.backlog)
      finish(StorageError(.overloaded, operation: name))
    case .closed: finish(StorageError(.closed, operation: name))
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
      case .running(_, let interrupt, let result):
        if isInterruptible && result == nil {
          // Under the lock: the connection cannot have gone on to the next operation.
          interrupt.interrupt()
        }
        return nil
      case .answered:
        return nil
      }
    }
    waiter?.resume(returning: .failure(StorageError(.cancelled, operation: name)))
  }

  private func isLate(at now: ContinuousClock.Instant) -> Bool { deadline.map { $0 <= now } ?? false }

  private var late: StorageError { StorageError(.overloaded, operation: name, detail: "the deadline passed") }

  func begin(on connection: SQLiteConnection, at now: ContinuousClock.Instant) -> Bool {
    guard !isLate(at: now) else {
      finish(late)
      return false
    }
    return state.withLock { state in
      guard case .waiting(let answer) = state else { return false }
      state = .running(answer, connection.interrupt, nil)
      return true
    }
  }

  func run(on connection: SQLiteConnection) async -> StorageError? {
    connection.operation = name
    let result: Result<Value, StorageError>
    do throws(StorageError) {
      result = .success(try await body(connection))
    } catch {
      result = .failure(error)
    }
    connection.endOperation()
    state.withLock { state in
      if case .running(let answer, let interrupt, _) = state { state = .running(answer, interrupt, result) }
    }
    if case .failure(let error) = result { return error }
    return nil
  }

  func finish(_ failure: StorageError?) {
    let ending: (Answer, Result<Value, StorageError>?)? = state.withLock { state in
      switch state {
      case .new, .answered:
        return nil
      case .waiting(let answer):
        state = .answered
        return (answer, nil)
      case .running(let answer, _, let result):
        state = .answered
        return (answer, result)
      }
    }
    guard let (answer, result) = ending else { return }
    if let failure {
      answer.resume(returning: .failure(failure))
    } else {
      answer.resume(
        returning: result ?? .failure(StorageError(.misuse, operation: name, detail: "finished before it ran")))
    }
  }
}
