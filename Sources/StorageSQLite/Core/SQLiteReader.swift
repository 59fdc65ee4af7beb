import Storage

/// A thread that reads, beside the writer and the other readers. Each operation sees one state of the database,
/// however many statements it runs.
struct SQLiteReader: ~Copyable {
  private let connection: SQLiteConnection
  private let queue: BlockingQueue<any QueuedOperation>
  private let statistics: SharedStatistics

  init(connection: SQLiteConnection, queue: BlockingQueue<any QueuedOperation>, statistics: SharedStatistics) {
    self.connection = connection
    self.queue = queue
    self.statistics = statistics
  }

  /// Returns when the queue is closed and drained.
  func run() async {
    var done = 0
    while let operation = queue.pop(upTo: 1, done: done).first {
      done = 0
      guard operation.begin(on: connection, at: .now) else { continue }
      done = 1
      var failure: StorageError?
      do throws(StorageError) {
        try connection.execute("BEGIN")
        failure = await operation.run(on: connection)
        // A reader has nothing to keep; ending the transaction lets checkpoints pass.
        if connection.isInTransaction { try connection.execute("ROLLBACK") }
      } catch {
        if failure == nil { failure = error }
      }
      statistics.read()
      operation.finish(failure)
    }
  }
}
