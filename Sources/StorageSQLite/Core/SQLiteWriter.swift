import Glibc
import Storage
import Synchronization

/// The one thread that writes: takes the operations that wait, runs them in one transaction, commits, and only then
/// answers them.
///
/// Each operation has a savepoint of its own, so one that fails undoes itself and nothing else. While a commit waits
/// for the disk the next group gathers by itself; an operation that finds the thread idle is committed alone, at once.
/// A group that is smaller than the one before lets other threads run once more: on a busy core those who are about to
/// ask get no chance otherwise, because the first of them wakes this thread.
struct SQLiteWriter: ~Copyable {
  private let connection: SQLiteConnection
  private let queue: BlockingQueue<any QueuedOperation>
  private let statistics: SharedStatistics
  private let clock = ContinuousClock()
  /// How many operations the last commit had: about as many are likely to come again.
  private var lastGroup = 0

  init(connection: SQLiteConnection, queue: BlockingQueue<any QueuedOperation>, statistics: SharedStatistics) {
    self.connection = connection
    self.queue = queue
    self.statistics = statistics
  }

  /// Returns when the queue is closed and drained.
  mutating func run() async {
    while true {
      let waiting = queue.pop(upTo: Limits.groupOperations, done: lastGroup)
      if waiting.isEmpty { return }
      await commit(waiting)
    }
  }

  private mutating func commit(_ first: [any QueuedOperation]) async {
    let started = clock.now
    var arrivals = first
    // Operations that ran in the open transaction, each with the error that undid it.
    var group: [(operation: any QueuedOperation, failure: StorageError?)] = []
    repeat {
      let now = clock.now
      for operation in arrivals where operation.begin(on: connection, at: now) {
        await runInGroup(operation, &group)
      }
      guard group.count < Limits.groupOperations, clock.now - started < Limits.groupDuration else { break }
      arrivals = queue.popAvailable(upTo: Limits.groupOperations - group.count)
      if arrivals.isEmpty && group.count < lastGroup {
        // Returns at once when nobody else wants this core.
        sched_yield()
        arrivals = queue.popAvailable(upTo: Limits.groupOperations - group.count)
      }
    } while !arrivals.isEmpty
    lastGroup = group.count
    end(&group)
  }

  private func runInGroup(
    _ operation: any QueuedOperation,
    _ group: inout [(operation: any QueuedOperation, failure: StorageError?)]
  ) async {
    do throws(StorageError) {
      if !connection.isInTransaction { try connection.execute("BEGIN IMMEDIATE") }
      try connection.execute("SAVEPOINT operation")
    } catch {
      // Nothing of this operation happened. What ran before it stands or falls with the transaction.
      if connection.isInTransaction {
        group.append((operation, error))
      } else {
        operation.finish(error)
        failAll(&group, error)
      }
      return
    }
    let failure = await operation.run(on: connection)
    guard connection.isInTransaction else {
      // The engine gave the whole transaction up (disk full, I/O error): nothing of the group is stored.
      let error = failure ?? StorageError(.misuse, operation: connection.operation, detail: "ended the transaction")
      operation.finish(error)
      failAll(&group, error)
      return
    }
    group.append((operation, failure))
    do throws(StorageError) {
      if failure != nil { try connection.execute("ROLLBACK TO operation") }
      try connection.execute("RELEASE operation")
    } catch {
      rollBack()
      failAll(&group, error)
    }
  }

  /// Commits, then answers: an operation's own failure counts only once what it was decided on is durable.
  private func end(_ group: inout [(operation: any QueuedOperation, failure: StorageError?)]) {
    guard !group.isEmpty else { return }
    do throws(StorageError) {
      connection.operation = "commit"
      try connection.execute("COMMIT")
    } catch {
      rollBack()
      failAll(&group, error)
      return
    }
    statistics.committed(group.count)
    for (operation, failure) in group { operation.finish(failure) }
    group.removeAll()
  }

  private func failAll(
    _ group: inout [(operation: any QueuedOperation, failure: StorageError?)],
    _ error: StorageError
  ) {
    statistics.failed(error)
    for (operation, _) in group { operation.finish(error) }
    group.removeAll()
  }

  private func rollBack() {
    guard connection.isInTransaction else { return }
    // A rollback that fails leaves no transaction either (https://www.sqlite.org/lang_transaction.html); the error
    // that led here is the one to report.
    _ = try? connection.execute("ROLLBACK")
  }
}

/// Counters that threads add to and anyone reads.
final class SharedStatistics: Sendable {
  private let values = Mutex(SQLiteStatistics())
  /// Why the last commit failed, and when a write was last tried because somebody asked; nil after one that did not.
  private let writing = Mutex<(failure: StorageError, tried: ContinuousClock.Instant)?>(nil)

  var current: SQLiteStatistics { values.withLock { $0 } }

  var failure: StorageError? { writing.withLock { $0?.failure } }

  /// At most once a second.
  func shouldTryAgain() -> Bool {
    writing.withLock { writing in
      guard let last = writing, .now - last.tried >= Limits.writeTrial else { return false }
      writing?.tried = .now
      return true
    }
  }

  func failed(_ error: StorageError) {
    switch error.fault {
    case .full, .unavailable, .corrupt: writing.withLock { $0 = (error, $0?.tried ?? .now) }
    case .constraint, .cancelled, .overloaded, .superseded, .closed, .outcomeUnknown, .newerSchema, .olderSchema,
      .oldInstances, .forbidden, .otherCell, .misuse:
      break
    }
  }

  func committed(_ operations: Int) {
    writing.withLock { $0 = nil }
    values.withLock {
      $0.writes += operations
      $0.commits += 1
      $0.largestGroup = max($0.largestGroup, operations)
    }
  }

  func read() {
    values.withLock { $0.reads += 1 }
  }
}
