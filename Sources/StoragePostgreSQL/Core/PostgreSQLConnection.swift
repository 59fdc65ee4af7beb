import Glibc
import LatchkeyModel
import Storage

/// One connection to a database, used by one thread.
///
/// Operations get it for the time they run and must not keep it. What they only want done (`execute`, `lock`) travels with
/// the next statement whose answer they wait for, or with the commit. A statement that fails ends its transaction: what may
/// fail says so in its SQL, `ON CONFLICT DO NOTHING` above all.
package final class PostgreSQLConnection {
  private let wire: PostgreSQLWire
  private let patience: PostgreSQLPatience
  let cells: Cells
  private let part: String
  /// The statements that begin the running transaction, while nothing was asked in it yet.
  private var beginning: [String] = []
  private var isInTransaction = false
  /// The chain of the audit log that this connection appends to, of its own.
  let chain = Int64.random(in: 1...Int64.max)
  /// Where the chain ends, and when the connection appended that.
  private var chainEnd: (end: AuditEnd, at: ContinuousClock.Instant)?
  /// Nil where no commit is looked up: while tables are made, or only read.
  private var lane: CommitLane?
  /// The running transaction, when nobody knows whether it was committed, and somebody can look.
  private(set) var unknown: CommitMark?
  /// Where the server stands; nil for one that does not say so.
  private(set) var history: ServerHistory?
  /// Where operations wait for their answers that run side by side.
  var rounds: PostgreSQLRounds?
  /// What is sent before anything else is.
  private var questions = PostgreSQLRowQuestions()

  /// Blocks until the database answers or the time to connect is over, at each host of the URL. `hasLane`: its commits can be
  /// looked up; the part's tables have ``CommitLane/statements``. `isFoundByKeys`: see ``PostgreSQLSchema/isFoundByKeys``.
  init(
    _ url: PostgreSQLURL, part: String, cells: Cells, patience: PostgreSQLPatience, hasLane: Bool = false,
    isFoundByKeys: Bool = false
  ) throws(StorageError) {
    self.cells = cells
    self.part = part
    self.patience = patience
    lane = hasLane ? CommitLane() : nil
    wire = try PostgreSQLWire.connect(to: url, idsOf: cells.identity)
    try configure(part, isFoundByKeys)
  }

  /// What every connection is set to: it holds for all of its transactions, and for any other that a pooler gives us.
  private func configure(_ part: String, _ isFoundByKeys: Bool) throws(StorageError) {
    // Settings that a server does not know are left out. It is asked for each: to list all it has takes it 4 ms.
    let plans = [
      ("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off"), ("enable_hashjoin", "off"),
      ("enable_mergejoin", "off"), ("enable_indexscan", "on"), ("enable_nestloop", "on"),
    ]
    let settings =
      (isFoundByKeys ? plans : []) + [
        ("search_path", part),
        ("client_min_messages", "warning"),
        ("lock_timeout", "\(patience.lockMilliseconds)"),
        ("idle_in_transaction_session_timeout", "\(Limits.silenceMilliseconds)"),
        ("client_connection_check_interval", "\(Limits.clientCheckMilliseconds)"),
        // Where this machine vanishes the server gives up what the connection holds, as this side does.
        ("tcp_keepalives_idle", "5"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "2"),
        ("tcp_user_timeout", "15000"),
        // A statement is given up by closing the connection: a cancelled COMMIT says that it is done when it is not.
        ("statement_timeout", "0"),
        // Compiling a statement takes longer than any of ours runs.
        ("jit", "off"),
        ("default_transaction_isolation", "read committed"), ("default_transaction_read_only", "off"),
      ]
    let values = settings.map { "('\($0)', '\($1)')" }.joined(separator: ", ")
    try run(
      """
      SELECT set_config(name, value, false) FROM (VALUES \(values)) AS settings (name, value)
      WHERE current_setting(name, true) IS NOT NULL;
      SELECT set_config('synchronous_commit', 'on', false)
      WHERE current_setting('synchronous_commit') IN ('off', 'local')
      """)
    let encoding = try only(
      "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()", [], isReading: true)
    guard PostgreSQLRow(encoding, 0).text(0) == "UTF8" else {
      throw StorageError(.unavailable, operation: operation, detail: "the database's encoding is not UTF8")
    }
    history = try askHistory()
  }

  /// Nil where there are no timelines, as in what is only like PostgreSQL, or where this role may not ask.
  private func askHistory() throws(StorageError) -> ServerHistory? {
    do throws(StorageError) {
      return try only(ServerHistory.question, [], isReading: true).first { row in
        ServerHistory(system: row.integer(0), timeline: row.integer(1))
      }
    } catch {
      guard !isBroken, error.fault == .misuse || error.fault == .forbidden else { throw error }
      return nil
    }
  }

  // MARK: For the stores

  /// The number of the running transaction, as a `bigint` in SQL.
  package static let thisTransaction = "pg_current_xact_id()::text::bigint"

  /// Has a statement run, without waiting for it. Errors: none of the statement's, which comes out of what is waited for
  /// next, at the latest of the commit.
  package func execute(_ sql: String, _ values: PostgreSQLValue...) async throws(StorageError) {
    try send(sql, values)
  }

  package func execute(_ sql: String, _ values: [PostgreSQLValue]) async throws(StorageError) {
    try send(sql, values)
  }

  /// Has rows added, without waiting for it; where operations run side by side, those of all together. Errors: as of `execute`.
  func add(_ rows: [[PostgreSQLValue]], by insert: PostgreSQLInsert) async throws(StorageError) {
    if let rounds { return try rounds.add(rows, by: insert) }
    let (sql, values) = insert.statement(for: rows)
    try send(sql, values)
  }

  /// Has what follows in the transaction planned for its values, and read a table whole where that is best; see
  /// ``PostgreSQLSchema/isFoundByKeys``.
  func planFreely() async throws(StorageError) {
    try send(
      "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true)", [])
  }

  /// Runs a statement. Returns how many rows it changed.
  package func change(_ sql: String, _ values: PostgreSQLValue...) async throws(StorageError) -> Int {
    try await rows(sql, values).changes
  }

  package func change(_ sql: String, _ values: [PostgreSQLValue]) async throws(StorageError) -> Int {
    try await rows(sql, values).changes
  }

  /// Every row, in the statement's order.
  package func all<Value>(
    _ sql: String,
    _ values: PostgreSQLValue...,
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> [Value] {
    try Self.all(try await rows(sql, values), map)
  }

  package func all<Value>(
    _ sql: String,
    _ values: [PostgreSQLValue],
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> [Value] {
    try Self.all(try await rows(sql, values), map)
  }

  /// The first row, or nil.
  package func first<Value>(
    _ sql: String,
    _ values: PostgreSQLValue...,
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    try await rows(sql, values).first(map)
  }

  package func first<Value>(
    _ sql: String,
    _ values: [PostgreSQLValue],
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    try await rows(sql, values).first(map)
  }

  /// Holds the key of a table, whether a row has it or not, to the end of the transaction: whoever else locks it waits.
  /// What is asked next sees what they did before.
  package func lock(_ table: StaticString, _ key: PostgreSQLValue...) async throws(StorageError) {
    try send("SELECT pg_advisory_xact_lock($1)", [.integer(LockKey.number(table, [.text(part)] + key))])
  }

  private func sendBeginning() throws(StorageError) {
    guard !beginning.isEmpty else { return }
    let statements = beginning
    beginning = []
    isInTransaction = true
    for statement in statements { try wire.send(statement, []) }
  }

  private func rows(_ sql: String, _ values: [PostgreSQLValue]) async throws(StorageError) -> PostgreSQLResult {
    if let rounds { return try await rounds.answer(sql, values) }
    try send(sql, values)
    return try wire.settle(patience.statement)
  }

  private static func all<Value>(
    _ result: PostgreSQLResult, _ map: (PostgreSQLRow) throws(StorageError) -> Value
  ) throws(StorageError) -> [Value] {
    var values: [Value] = []
    values.reserveCapacity(Int(result.count))
    for row in 0..<result.count { values.append(try map(PostgreSQLRow(result, row))) }
    return values
  }

  // MARK: The audit log

  /// Where its chain ends; nil when that is to be read, for what it appended itself may be forgotten after a while.
  var knownChainEnd: AuditEnd? {
    guard let chainEnd, chainEnd.at.duration(to: .now) < Limits.chainEndAge else { return nil }
    return chainEnd.end
  }

  /// Holds when the running transaction is committed.
  func chainEnds(at end: AuditEnd) { chainEnd = (end, .now) }

  // MARK: Transactions

  /// Begins a transaction, with the first statement that is asked in it. In one for several operations nobody waits long
  /// for a lock, and others wait not as long for the locks of a process that stands still.
  func begin(isReading: Bool, isGroup: Bool = false) {
    startOver()
    beginning = [
      isReading
        ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" : "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
    ]
    if isGroup {
      beginning.append(
        "SELECT set_config('lock_timeout', '\(Limits.groupLockMilliseconds)', true), "
          + "set_config('idle_in_transaction_session_timeout', '\(patience.groupSilenceMilliseconds)', true)")
    }
  }

  /// Forgets what became of the last transaction.
  func startOver() {
    wire.hasConflict = false
    wire.hasAnswered = false
    unknown = nil
  }

  /// Commits, together with what was not waited for.
  ///
  /// Errors: of a statement that failed, or of the commit; `outcomeUnknown` when the answer did not come, or came before a
  /// standby had the change, and then ``unknown`` says which to look up.
  func commit() throws(StorageError) {
    try sendQuestions()
    guard beginning.isEmpty else {
      // Nothing was asked.
      beginning = []
      return
    }
    let limit = wire.isUnsettled ? max(patience.statement, Limits.commit) : Limits.commit
    wire.forgetWarnings()
    if let lane {
      if let (sql, values) = lane.removal { try wire.send(sql, values) }
      try wire.send(CommitLane.mark, [.integer(lane.next.lane), .integer(lane.next.number)])
    }
    try wire.send("COMMIT", [])
    let result: PostgreSQLResult
    do throws(StorageError) {
      result = try settleChange(limit)
    } catch {
      if error.fault == .outcomeUnknown, let mark = lane?.next {
        unknown = mark
        // That one is closed by who looks.
        lane = CommitLane()
      }
      throw error
    }
    isInTransaction = false
    guard result.command == "COMMIT" else {
      chainEnd = nil
      throw StorageError(
        hasConflict ? .overloaded : .misuse, operation: operation, detail: "a statement had failed before the commit")
    }
    lane?.advance()
  }

  /// Looks whether a transaction of another connection was committed, and sees to it that this stays so. It waits for one
  /// that is just being committed. Errors: of a statement; what became of the transaction is as unknown as before then.
  func isCommitted(_ mark: CommitMark) throws(StorageError) -> Bool {
    operation = "look a commit up"
    let last = try only(CommitLane.close, [.integer(mark.lane)], isReading: false).first { $0.integer(0) }
    return last == mark.number
  }

  /// Runs one statement as a transaction of its own, which is not looked up. Errors: as ``commit()``; for one that reads, as
  /// any statement.
  func only(_ sql: String, _ values: [PostgreSQLValue], isReading: Bool) throws(StorageError) -> PostgreSQLResult {
    startOver()
    wire.forgetWarnings()
    try wire.send(sql, values)
    return isReading ? try wire.settle(patience.statement) : try settleChange(max(patience.statement, Limits.commit))
  }

  private func settleChange(_ limit: Duration) throws(StorageError) -> PostgreSQLResult {
    let result: PostgreSQLResult
    do throws(StorageError) {
      result = try wire.settle(limit)
    } catch {
      // A plain error is the server's word that the transaction is undone.
      guard isBroken, !wire.wasRefused else { throw error }
      throw StorageError(.outcomeUnknown, operation: operation, detail: error.detail)
    }
    if let warning = wire.warning {
      // Such as a wait for the standby that somebody ended: committed here, and maybe nowhere else.
      throw StorageError(.outcomeUnknown, operation: operation, detail: warning)
    }
    return result
  }

  /// Asks for something whose answer `receive` gets when it is settled, unless anything fails.
  func send(
    _ sql: String, _ values: [PostgreSQLValue], _ receive: PostgreSQLWire.Receiver? = nil
  ) throws(StorageError) {
    try rounds?.sendAdditions()
    try sendQuestions()
    try sendBeginning()
    try wire.send(sql, values, receive)
  }

  /// Asks about a row, together with others that ask the same about theirs. `receive` gets it when that is settled, unless
  /// anything fails, or nil where there is none; the row holds for the call.
  func ask(
    _ question: PostgreSQLRowQuestion, _ receive: @escaping (PostgreSQLRow?) -> Void
  ) throws(StorageError) {
    try rounds?.sendAdditions()
    if questions.comesBefore(question) { try sendQuestions() }
    questions.append(PostgreSQLRowQuestions.Asked(question: question, receive: receive))
  }

  /// Writes down what is held back, unless that is nothing.
  func sendQuestions() throws(StorageError) {
    guard !questions.isEmpty else { return }
    try sendBeginning()
    for (statement, asked) in questions.takeAll() {
      let (sql, values, receive) = statement.statement(for: asked)
      try wire.send(sql, values, receive)
    }
  }

  /// Takes the answers to all that was asked.
  func settle() throws(StorageError) {
    try sendQuestions()
    try wire.settle(patience.statement)
  }

  /// Ends a transaction that only read: there is nothing to keep. Errors: of what was not waited for.
  func endReading() throws(StorageError) {
    try sendQuestions()
    if wire.isUnsettled { try wire.settle(patience.statement) }
    undo()
  }

  /// Undoes the transaction; a connection that cannot is broken, which undoes it as well.
  func rollBack() {
    chainEnd = nil
    questions = PostgreSQLRowQuestions()
    // What follows a failure would be passed over.
    if !isBroken, wire.isUnsettled { _ = try? wire.settle(patience.statement) }
    undo()
  }

  private func undo() {
    beginning = []
    guard isInTransaction, !isBroken else { return }
    isInTransaction = false
    do throws(StorageError) {
      try wire.send("ROLLBACK", [])
      try wire.settle(patience.statement)
    } catch {
      wire.giveUp()
    }
  }

  /// Asks the server whether it still answers; a connection on which it does not is broken.
  func checkLife() {
    operation = "look whether the database answers"
    if (try? only("SELECT 1", [], isReading: true)) == nil { wire.giveUp() }
  }

  /// Nothing more is asked of it.
  func giveUp() { wire.giveUp() }

  /// What arrived while nothing was asked; false when that was the connection's end.
  func takeIdleInput() -> Bool { wire.takeIdleInput() }

  /// What the running operation is called, for errors.
  var operation: String {
    get { wire.operation }
    set { wire.operation = newValue }
  }

  /// Nothing more can be asked of it.
  var isBroken: Bool { wire.isBroken }

  /// It was lost before the server answered anything of the running transaction, and not given up by this side: what was
  /// not committed may be run on another.
  var isUntouched: Bool { wire.isBroken && !wire.hasAnswered && !wire.isGivenUp }

  /// This side gave it up.
  var isGivenUp: Bool { wire.isGivenUp }

  /// The running transaction came into another's way and can be tried again.
  var hasConflict: Bool { wire.hasConflict }

  /// The server found no room on its disk since this was set to false.
  var hasNoRoom: Bool {
    get { wire.hasNoRoom }
    set { wire.hasNoRoom = newValue }
  }

  /// For waiting on; -1 once the connection ended.
  var socket: Int32 { wire.socket }

  /// The end of the connection, for tests: what a cut cable does.
  func breakSocket() { shutdown(socket, Int32(SHUT_RDWR)) }

  /// Runs a script of several statements without values. Stops at the first that fails.
  func run(_ script: String) throws(StorageError) {
    try sendBeginning()
    try wire.run(script, patience.statement)
  }
}
