import CPostgreSQL
import Glibc
import LatchkeyModel
import Storage

/// One connection to a database, used by one thread, which waits for each answer.
///
/// Operations get it for the time they run and must not keep it. SQL texts are constants: each is prepared once and kept.
/// A statement that fails ends its transaction: what may fail says so in its SQL, `ON CONFLICT DO NOTHING` above all.
@safe package final class PostgreSQLConnection {
  // Made in `init`, finished in `deinit`, never handed out.
  private let handle: OpaquePointer
  private let notices = PostgreSQLNotices()
  private let patience: PostgreSQLPatience
  let cells: Cells
  private let part: String
  private var names: [String: String] = [:]
  /// The chain of the audit log that this connection appends to, of its own.
  let chain = Int64.random(in: 1...Int64.max)
  /// What the running operation is called, for errors.
  var operation = "connect"
  /// Nothing more can be asked of it.
  private(set) var isBroken = false
  /// The running transaction came into another's way and can be tried again.
  private(set) var hasConflict = false

  /// Blocks until the database answers or the time to connect is over, at each host of the URL.
  init(
    _ url: PostgreSQLURL, part: String, cells: Cells, patience: PostgreSQLPatience
  ) throws(StorageError) {
    self.cells = cells
    self.part = part
    self.patience = patience
    guard let handle = unsafe Self.connect(url.connectionOptions) else {
      throw StorageError(.unavailable, operation: "connect", detail: "no memory for a connection")
    }
    unsafe self.handle = handle
    // The handle is live until `deinit`.
    guard unsafe PQstatus(self.handle) == CONNECTION_OK else { throw connectFailure(url) }
    unsafe PQsetnonblocking(handle, 1)
    // The receiver is called on this thread, and `notices` lives as long as the connection.
    unsafe PQsetNoticeReceiver(
      handle, { unsafe PostgreSQLNotices.receive($0, $1) }, Unmanaged.passUnretained(notices).toOpaque())
    try configure(part)
  }

  deinit {
    // Closes the socket; nobody has the handle any more.
    unsafe PQfinish(handle)
  }

  private static func connect(_ options: [String: String]) -> OpaquePointer? {
    // Copies, freed below; libpq keeps none of them.
    var keywords: [UnsafePointer<CChar>?] = unsafe []
    var values: [UnsafePointer<CChar>?] = unsafe []
    for (keyword, value) in options {
      unsafe keywords.append(UnsafePointer(strdup(keyword)))
      unsafe values.append(UnsafePointer(strdup(value)))
    }
    unsafe keywords.append(nil)
    unsafe values.append(nil)
    defer {
      unsafe (keywords + values).forEach { unsafe free(UnsafeMutablePointer(mutating: $0)) }
    }
    return unsafe PQconnectdbParams(keywords, values, 0)
  }

  /// libpq's reason names hosts, users and databases, but no password.
  private func connectFailure(_ url: PostgreSQLURL) -> StorageError {
    // The message belongs to the connection and is copied at once.
    let message = unsafe PQerrorMessage(handle).map { unsafe String(cString: $0) } ?? ""
    let line = message.split(whereSeparator: \.isNewline).joined(separator: "; ")
    return StorageError(.unavailable, operation: "connect to \(url)", detail: line)
  }

  /// What every connection is set to: it holds for all of its transactions, and for any other that a pooler gives us.
  private func configure(_ part: String) throws(StorageError) {
    // Settings that a server does not know are left out.
    let settings = [
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
      ("default_transaction_isolation", "read committed"),
    ]
    let values = settings.map { "('\($0)', '\($1)')" }.joined(separator: ", ")
    try run(
      """
      SELECT set_config(s.name, w.value, false)
      FROM pg_settings s JOIN (VALUES \(values)) AS w (name, value) USING (name);
      SELECT set_config('synchronous_commit', 'on', false)
      WHERE current_setting('synchronous_commit') IN ('off', 'local')
      """)
    let encoding = try rows(
      "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()", [])
    guard PostgreSQLRow(encoding, 0).text(0) == "UTF8" else {
      throw StorageError(.unavailable, operation: operation, detail: "the database's encoding is not UTF8")
    }
  }

  // MARK: For the stores

  /// The number of the running transaction, as a `bigint` in SQL.
  package static let thisTransaction = "pg_current_xact_id()::text::bigint"

  /// Runs a statement. Returns how many rows it changed.
  @discardableResult
  package func execute(_ sql: String, _ values: PostgreSQLValue...) async throws(StorageError) -> Int {
    try rows(sql, values).changes
  }

  @discardableResult
  package func execute(_ sql: String, _ values: [PostgreSQLValue]) async throws(StorageError) -> Int {
    try rows(sql, values).changes
  }

  /// Every row, in the statement's order.
  package func all<Value>(
    _ sql: String,
    _ values: PostgreSQLValue...,
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> [Value] {
    try Self.all(try rows(sql, values), map)
  }

  package func all<Value>(
    _ sql: String,
    _ values: [PostgreSQLValue],
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> [Value] {
    try Self.all(try rows(sql, values), map)
  }

  /// The first row, or nil.
  package func first<Value>(
    _ sql: String,
    _ values: PostgreSQLValue...,
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    let result = try rows(sql, values)
    return result.count > 0 ? try map(PostgreSQLRow(result, 0)) : nil
  }

  package func first<Value>(
    _ sql: String,
    _ values: [PostgreSQLValue],
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    let result = try rows(sql, values)
    return result.count > 0 ? try map(PostgreSQLRow(result, 0)) : nil
  }

  /// Holds the key of a table, whether a row has it or not, to the end of the transaction: whoever else locks it waits.
  package func lock(_ table: StaticString, _ key: PostgreSQLValue...) async throws(StorageError) {
    _ = try rows("SELECT pg_advisory_xact_lock($1)", [.integer(LockKey.number(table, [.text(part)] + key))])
  }

  private static func all<Value>(
    _ result: PostgreSQLResult, _ map: (PostgreSQLRow) throws(StorageError) -> Value
  ) throws(StorageError) -> [Value] {
    var values: [Value] = []
    values.reserveCapacity(Int(result.count))
    for row in 0..<result.count { values.append(try map(PostgreSQLRow(result, row))) }
    return values
  }

  // MARK: Transactions

  func begin(isReading: Bool) throws(StorageError) {
    hasConflict = false
    try run(
      isReading
        ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" : "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
  }

  /// Errors: `outcomeUnknown` when the answer did not come, or came before a standby had the change.
  func commit() throws(StorageError) {
    notices.forget()
    // The text lives through the call; the handle is live until `deinit`.
    guard unsafe PQsendQuery(handle, "COMMIT") == 1 else { throw broken("the connection to the database ended") }
    let result: PostgreSQLResult
    do throws(StorageError) {
      result = try answer(Limits.commit)
    } catch {
      // A plain error is the server's word that the transaction is undone.
      throw isBroken ? StorageError(.outcomeUnknown, operation: operation, detail: error.detail) : error
    }
    if let warning = notices.warning {
      // Such as a wait for the standby that somebody ended: committed here, and maybe nowhere else.
      throw StorageError(.outcomeUnknown, operation: operation, detail: warning)
    }
    guard result.command == "COMMIT" else {
      throw StorageError(
        hasConflict ? .overloaded : .misuse, operation: operation, detail: "a statement had failed before the commit")
    }
  }

  /// Undoes the transaction; a connection that cannot is broken, which undoes it as well.
  func rollBack() {
    if !isBroken { try? run("ROLLBACK") }
  }

  /// Asks the server whether it still answers; a connection on which it does not is broken.
  func checkLife() {
    operation = "look whether the database answers"
    do throws(StorageError) {
      try run("SELECT 1")
    } catch {
      isBroken = true
    }
  }

  /// What arrived while nothing was asked; false when that was the connection's end.
  func takeIdleInput() -> Bool {
    // The handle is live until `deinit`.
    if unsafe PQconsumeInput(handle) == 0 || PQstatus(handle) != CONNECTION_OK { isBroken = true }
    return !isBroken
  }

  /// For waiting on; -1 once the connection ended.
  var socket: Int32 {
    // The handle is live until `deinit`.
    unsafe PQsocket(handle)
  }

  /// The end of the connection, for tests: what a cut cable does.
  func breakSocket() { shutdown(socket, Int32(SHUT_RDWR)) }

  // MARK: Statements

  /// Runs a script of several statements without values. Stops at the first that fails.
  func run(_ script: String) throws(StorageError) {
    // The text lives through the call; the handle is live until `deinit`.
    guard unsafe PQsendQuery(handle, script) == 1 else { throw broken("the connection to the database ended") }
    _ = try answer(patience.statement)
  }

  private func rows(_ sql: String, _ values: [PostgreSQLValue]) throws(StorageError) -> PostgreSQLResult {
    let name = try prepare(sql)
    let isSent = unsafe PostgreSQLParameters(values).withPointers { count, pointers, lengths, formats in
      // All of it is copied before the call returns; results in binary form.
      unsafe PQsendQueryPrepared(handle, name, count, pointers, lengths, formats, 1) == 1
    }
    guard isSent else { throw broken("the connection to the database ended") }
    return try answer(patience.statement)
  }

  private func prepare(_ sql: String) throws(StorageError) -> String {
    if let name = names[sql] { return name }
    let isKept = names.count < Limits.preparedStatements
    // The unnamed statement holds until the next one.
    let name = isKept ? "s\(names.count)" : ""
    // The texts live through the call; the server finds out the types.
    guard unsafe PQsendPrepare(handle, name, sql, 0, nil) == 1 else {
      throw broken("the connection to the database ended")
    }
    _ = try answer(patience.statement)
    if isKept { names[sql] = name }
    return name
  }

  /// Waits for the whole answer to what was sent. Errors: the first that the server reported.
  private func answer(_ limit: Duration) throws(StorageError) -> PostgreSQLResult {
    let deadline = ContinuousClock.now + limit
    try flush(until: deadline)
    var last: PostgreSQLResult?
    var failure: PostgreSQLFailure?
    while true {
      try receive(until: deadline)
      // Does not block: the answer is there. Each result becomes ours.
      guard let next = unsafe PQgetResult(handle) else { break }
      let result = unsafe PostgreSQLResult(next, idsOf: cells.identity)
      if failure == nil { failure = result.failure }
      last = result
    }
    if let failure { throw note(failure) }
    guard let last else { throw broken("the connection to the database ended") }
    return last
  }

  private func flush(until deadline: ContinuousClock.Instant) throws(StorageError) {
    while true {
      // The handle is live until `deinit`.
      switch unsafe PQflush(handle) {
      case 0: return
      case 1: break
      // What the server said before it went is still to be read.
      default: return
      }
      try wait(toWrite: true, until: deadline)
    }
  }

  private func receive(until deadline: ContinuousClock.Instant) throws(StorageError) {
    // The handle is live until `deinit`.
    while unsafe PQisBusy(handle) == 1 {
      try wait(toWrite: false, until: deadline)
      // What it reports comes as a result.
    }
  }

  private func wait(toWrite: Bool, until deadline: ContinuousClock.Instant) throws(StorageError) {
    guard PostgreSQLPoll.wait(socket, toWrite: toWrite, until: deadline) else {
      throw broken("the database did not answer in time")
    }
    // The handle is live until `deinit`. A failure shows as a result that says so.
    unsafe PQconsumeInput(handle)
  }

  private func note(_ failure: PostgreSQLFailure) -> StorageError {
    if failure.isConflict { hasConflict = true }
    // The handle is live until `deinit`.
    let isOver = unsafe PQstatus(handle) != CONNECTION_OK
    if isOver || failure.isFatal || failure.isReadOnlyServer { isBroken = true }
    return failure.error(operation)
  }

  /// No answer is waited for any more: the connection is closed, never its statement cancelled.
  private func broken(_ detail: String) -> StorageError {
    isBroken = true
    return StorageError(.unavailable, operation: operation, detail: detail)
  }
}
