import Storage
import Synchronization

/// Runs operations side by side in one transaction: what all of them ask is sent together and waited for once, then each goes
/// on with its answer.
///
/// ```
/// A ─ ask ─┐             ┌─ goes on, asks ─┐          ┌─ goes on, ends
/// B ─ ask ─┼─ one round ─┼─ goes on, ends  ├─ another ┤
/// C ─ ask ─┘    trip     └─ goes on, asks ─┘          └─ goes on, ends
/// ```
/// Those that are about the same rows run one after the other, each seeing those before it.
///
/// Rows that several add to the same table are one statement. They are held back until anything else is sent, so that whoever asks
/// finds them; an operation's own come in its order.
///
/// All of it happens on the connection's thread, within `run`: each operation is a task that stops where it asks, and that
/// nobody else ever runs. The server gets the statements in the order in which they were asked.
final class PostgreSQLRounds: TaskExecutor, @unchecked Sendable {
  // Unchecked: only the thread that is in `run` touches what is not behind a lock.

  /// What an operation waits for.
  private final class Question {
    var asker: CheckedContinuation<Void, Never>?
    var answer: PostgreSQLResult?
  }

  private let connection: PostgreSQLConnection
  /// After which no more are begun, unless none is.
  private let deadline: ContinuousClock.Instant
  /// Those that were not begun, in their order.
  private var waiting: [any QueuedOperation]
  private var begun: [any QueuedOperation] = []
  /// What the running ones are about.
  private var held: Set<String> = []
  private var running = 0
  private var questions: [Question] = []
  /// Rows that are to be added, by the statement that adds them.
  private var additions: [(insert: PostgreSQLInsert, rows: [[PostgreSQLValue]])] = []
  /// The first of them that what the running operation adds next may join: its own are sent in its order.
  private var nextAddition = 0
  /// The first of an operation, or of what was asked: then nobody waits for answers any more, and nobody begins.
  private var failure: StorageError?
  private let jobs = Mutex<[UnownedJob]>([])

  private init(
    _ operations: [any QueuedOperation], _ connection: PostgreSQLConnection, until deadline: ContinuousClock.Instant
  ) {
    waiting = operations
    self.connection = connection
    self.deadline = deadline
  }

  /// What became of them.
  struct End {
    /// They have ended. What they kept of their results holds once all that was sent is settled.
    let begun: [any QueuedOperation]
    /// There was no time for them.
    let left: [any QueuedOperation]
    /// The first of any: the transaction is to be undone.
    let failure: StorageError?
  }

  /// Returns when all that were begun have ended. What the last of them asked without waiting for it may be unanswered still.
  static func run(
    _ operations: [any QueuedOperation], on connection: PostgreSQLConnection, until deadline: ContinuousClock.Instant
  ) -> End {
    let rounds = PostgreSQLRounds(operations, connection, until: deadline)
    connection.rounds = rounds
    defer { connection.rounds = nil }
    repeat {
      rounds.settle()
      repeat { rounds.runJobs() } while rounds.beginSome()
    } while !rounds.questions.isEmpty
    precondition(rounds.running == 0, "an operation awaited something besides its transaction")
    rounds.sendLastAdditions()
    return End(begun: rounds.begun, left: rounds.waiting, failure: rounds.failure)
  }

  // MARK: The operations

  /// Begins those that are about nothing that one is about which runs, or waits and came before. False when there are none.
  private func beginSome() -> Bool {
    guard failure == nil, !waiting.isEmpty, begun.isEmpty || .now <= deadline else { return false }
    let before = begun.count
    var others: [any QueuedOperation] = []
    var theirs: Set<String> = []
    for operation in waiting {
      let rows = operation.rows
      if failure == nil, held.isDisjoint(with: rows), theirs.isDisjoint(with: rows) {
        begin(operation)
      } else {
        others.append(operation)
        theirs.formUnion(rows)
      }
    }
    waiting = others
    return begun.count > before
  }

  private func begin(_ operation: any QueuedOperation) {
    begun.append(operation)
    guard !isSent(operation) else { return }
    held.formUnion(operation.rows)
    running += 1
    // Nobody else has the connection while its thread is in `run`.
    nonisolated(unsafe) let connection = connection
    Task(executorPreference: self) { [self] in
      nextAddition = 0
      do throws(StorageError) {
        if let failure { throw failure }
        try await operation.join(unsafe connection)
      } catch {
        failure = failure ?? error
      }
      running -= 1
      held.subtract(operation.rows)
    }
  }

  /// Whether one statement was all of it. The server does what is sent next after it: nothing has to wait for it here.
  private func isSent(_ operation: any QueuedOperation) -> Bool {
    do throws(StorageError) {
      return try operation.send(to: connection)
    } catch {
      failure = failure ?? error
      return true
    }
  }

  /// Asks a statement of the running operation, which goes on when the answers of all are there.
  func answer(_ sql: String, _ values: [PostgreSQLValue]) async throws(StorageError) -> PostgreSQLResult {
    if let failure { throw failure }
    let name = connection.operation
    let question = Question()
    try connection.send(sql, values) { question.answer = $0 }
    questions.append(question)
    await withCheckedContinuation { question.asker = $0 }
    // Others have used them meanwhile.
    connection.operation = name
    nextAddition = 0
    if let failure { throw failure }
    guard let answer = question.answer else {
      throw StorageError(.unavailable, operation: name, detail: "its answer is lost")
    }
    return answer
  }

  /// Has rows added, together with those of others, before anything else is sent.
  func add(_ rows: [[PostgreSQLValue]], by insert: PostgreSQLInsert) throws(StorageError) {
    if let failure { throw failure }
    try connection.sendQuestions()
    // The last one, so that rows of a table come in the order in which they were added, whoever added them.
    if let place = additions.indices[nextAddition...].last(where: { additions[$0].insert === insert }),
      !insert.collides(rows, with: additions[place].rows)
    {
      additions[place].rows += rows
      nextAddition = place + 1
    } else {
      additions.append((insert, rows))
      nextAddition = additions.count
    }
  }

  /// Writes down what adds the rows of all, unless there are none.
  func sendAdditions() throws(StorageError) {
    guard !additions.isEmpty else { return }
    let all = additions
    (additions, nextAddition) = ([], 0)
    do throws(StorageError) {
      for (insert, rows) in all {
        let (sql, values) = insert.statement(for: rows)
        try connection.send(sql, values)
      }
    } catch {
      // They are others' rows as well.
      failure = failure ?? error
      throw error
    }
  }

  private func sendLastAdditions() {
    guard failure == nil else { return }
    // What fails is kept.
    try? sendAdditions()
  }

  /// Sends what is asked and takes the answers to all of it.
  private func settle() {
    guard !questions.isEmpty else { return }
    do throws(StorageError) {
      if failure == nil { try connection.settle() }
    } catch {
      failure = error
    }
    let asked = questions
    questions = []
    for question in asked { question.asker?.resume() }
  }

  // MARK: The executor

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
  }

  /// Lets each go on until it asks or ends.
  private func runJobs() {
    while true {
      let batch = jobs.withLock { jobs in
        defer { jobs.removeAll(keepingCapacity: true) }
        return jobs
      }
      if batch.isEmpty { return }
      for job in batch { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
  }
}
