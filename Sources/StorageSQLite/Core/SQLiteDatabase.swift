import Callers
import Glibc
import LatchkeyModel
import Storage
import Synchronization

/// A database file: one writer that commits groups, readers beside it, and durable schema versions.
///
/// ```swift
/// let database = try SQLiteDatabase.open(path: "identity.db", schema: schema)
/// let id = try await database.write { db throws(StorageError) in
///   try db.execute("INSERT INTO guests (id) VALUES (?)", .text(id))
/// }
/// ```
/// `write` returns when the change is durable: after the commit that carries it, with `synchronous = FULL`.
/// Both throw `overloaded` at once when too much waits, or when the work would begin after the call's deadline
/// (``CallDeadline``), and `cancelled` when the calling task is cancelled before the work began.
package final class SQLiteDatabase: Sendable {
  private let writes: BlockingQueue<any QueuedOperation>
  private let reads: BlockingQueue<any QueuedOperation>
  private let statisticsSource: SharedStatistics
  private let threads: RunningThreads

  /// Opens the file, made with mode 0600 when there is none, and brings its schema to the latest version. Blocks: for
  /// the start of a process, before it serves.
  ///
  /// `isPatient`: what waits is never refused because of what has waited for long. For those whose work comes all at
  /// once and in a bounded amount, such as tests; a service is not.
  ///
  /// Errors: `otherCell` for a file that was made in another cell than `cells.own`, before it is changed in any way.
  package static func open(
    path: String,
    schema: SQLiteSchema,
    cells: Cells = Cells(),
    readers: Int? = nil,
    isPatient: Bool = false
  ) throws(StorageError) -> SQLiteDatabase {
    try DatabaseFile.create(path)
    let writer = try SQLiteConnection(path: path, mode: .writer, idsOf: cells.identity)
    try SchemaUpgrade.run(schema, in: cells.own, on: writer)
    var readConnections: [Handover] = []
    for _ in 0..<max(1, readers ?? Limits.readers) {
      readConnections.append(Handover(try SQLiteConnection(path: path, mode: .reader, idsOf: cells.identity)))
    }
    return try SQLiteDatabase(
      writer: Handover(writer), readers: readConnections,
      waiting: isPatient
        ? nil
        : WaitingRule.Bounds(
          longestWait: Limits.longestWait, shortWait: Limits.shortWait, calm: Limits.calm))
  }

  private init(
    writer: Handover, readers: [Handover], waiting: WaitingRule.Bounds?
  ) throws(StorageError) {
    writes = BlockingQueue(capacity: Limits.waitingWrites, bounds: waiting)
    reads = BlockingQueue(capacity: Limits.waitingReads, bounds: waiting)
    statisticsSource = SharedStatistics()
    threads = RunningThreads()
    let (writes, reads, statistics, threads) = (writes, reads, statisticsSource, threads)
    var isStarted = threads.start(writer) { connection in
      var writer = SQLiteWriter(connection: connection, queue: writes, statistics: statistics)
      await writer.run()
    }
    for reader in readers {
      isStarted =
        threads.start(reader) { connection in
          await SQLiteReader(connection: connection, queue: reads, statistics: statistics).run()
        } && isStarted
    }
    guard isStarted else {
      writes.close()
      reads.close()
      throw StorageError(.unavailable, operation: "open", detail: "the system has no thread left")
    }
  }

  deinit {
    // The threads finish what waits and end.
    writes.close()
    reads.close()
  }

  /// Runs `body` in a transaction and returns when it is durable. When `body` throws, nothing of it is stored.
  package func write<Value: Sendable>(
    _ name: String = #function,
    _ body: @escaping @Sendable (SQLiteConnection) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await SQLiteOperation(name: name, isInterruptible: false, body: body).perform(in: writes)
  }

  /// Runs `body` on one state of the database, beside writers and other readers.
  package func read<Value: Sendable>(
    _ name: String = #function,
    _ body: @escaping @Sendable (SQLiteConnection) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await SQLiteOperation(name: name, isInterruptible: true, body: body).perform(in: reads)
  }

  package var statistics: SQLiteStatistics { statisticsSource.current }

  /// Why nothing can be written; nil while writes reach the disk.
  ///
  /// Whoever asks while writes fail has one tried, so that the answer changes when the disk does, also where nobody
  /// writes because of this answer.
  package var obstacle: String? {
    guard let failure = statisticsSource.failure else { return nil }
    if statisticsSource.shouldTryAgain() {
      // Not the caller's work, whose deadline may be near.
      Task.detached { [self] in try? await write("tryToWrite") { db throws(StorageError) in try db.writeVersionAgain() }
      }
    }
    return "the database cannot be written to: \(failure.fault == .full ? "the disk is full" : "the disk fails")"
  }

  /// Writes that wait for the writer's thread to take them.
  package var waitingWrites: Int { writes.count }

  package var isClosed: Bool { writes.isClosed }

  /// Takes no more work, finishes what waits, folds the log into the file and closes it. May be called again.
  package func close() async {
    writes.close()
    reads.close()
    await threads.ended()
  }
}

/// Carries a connection to the thread that will own it, and keeps it until that is done.
// Sendable: the maker gives it up, and the one thread that it was made for is the only one to ask for it afterwards.
private final class Handover: @unchecked Sendable {
  private(set) var connection: SQLiteConnection?

  init(_ connection: sending SQLiteConnection) {
    self.connection = connection
  }

  /// Nobody else may hold the connection.
  func close() { connection = nil }
}

/// The threads of a database, and who waits for their end.
private final class RunningThreads: Sendable {
  private struct State {
    var running = 0
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())
  private let closing = Mutex(())

  func start(_ handover: Handover, _ body: @escaping @Sendable (SQLiteConnection) async -> Void) -> Bool {
    state.withLock { $0.running += 1 }
    let isStarted = WorkerThread.start { [self] in
      Self.runTask(handover, body)
      // The last one to close folds the log into the file, unless another is at it in that moment.
      closing.withLock { _ in handover.close() }
      threadEnded()
    }
    if !isStarted { threadEnded() }
    return isStarted
  }

  /// Runs all that a thread does as one task, which never suspends: what is `async` in an operation is so for other
  /// engines, and whatever it awaits here returns at once. Only so does the connection stay on its thread.
  private static func runTask(
    _ handover: Handover, _ body: @escaping @Sendable (SQLiteConnection) async -> Void
  ) {
    let end = TaskEnd()
    // Runs here and now.
    Task.immediate {
      if let connection = handover.connection { await body(connection) }
      end.hasCome.withLock { $0 = true }
    }
    precondition(end.hasCome.withLock { $0 }, "an operation awaited something besides its transaction")
  }

  private final class TaskEnd: Sendable {
    let hasCome = Mutex(false)
  }

  private func threadEnded() {
    let waiters = state.withLock { state in
      state.running -= 1
      guard state.running == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiters.removeAll() }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  func ended() async {
    await withCheckedContinuation { waiter in
      let isOver = state.withLock { state in
        if state.running > 0 { state.waiters.append(waiter) }
        return state.running == 0
      }
      if isOver { waiter.resume() }
    }
  }
}
