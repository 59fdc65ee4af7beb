import CSQLite
import LatchkeyModel
import Storage

/// One connection to a database file, used by one thread.
///
/// Operations get it for the time they run, ask it for statements by their SQL, and must not keep either. SQL texts
/// are constants: the prepared statement is kept for the next operation.
@safe package final class SQLiteConnection {
  enum Mode {
    /// Makes the file when there is none.
    case writer
    case reader
    /// Fills a file that nobody uses before it is whole: nothing is waited for, and nothing survives a crash.
    case copy
  }

  // Opened in `init`, closed in `deinit`, never handed out.
  private let handle: OpaquePointer
  private var cache: [String: SQLiteStatement] = [:]
  private var lent: [SQLiteStatement] = []
  /// What the running operation is called, for errors.
  var operation: String
  let interrupt: SQLiteInterrupt
  /// Of the ids that rows are read with.
  private let cell: Cell

  init(path: String, mode: Mode, idsOf cell: Cell = .first) throws(StorageError) {
    self.cell = cell
    operation = "open \(path)"
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    // The path lives through the call. NOMUTEX: one thread uses the connection. The file exists by now, so that it has
    // the permissions that we gave it.
    let code = unsafe sqlite3_open_v2(path, &opened, flags, nil)
    guard code == SQLITE_OK, let opened = unsafe opened else {
      let error = unsafe StorageError(code: code, database: opened, operation: operation)
      // SQLite may hand out a handle even when opening failed; closing NULL does nothing.
      unsafe sqlite3_close_v2(opened)
      throw error
    }
    unsafe handle = opened
    interrupt = unsafe SQLiteInterrupt(opened)
    // The handle is live until `deinit`.
    unsafe sqlite3_busy_timeout(handle, Int32(Limits.busyTimeout.components.seconds * 1000))
    try configure(mode)
  }

  deinit {
    interrupt.retire()
    cache.removeAll()
    lent.removeAll()
    // Every statement is finalised, so the connection closes now; the last one to close folds the log into the file.
    unsafe sqlite3_close_v2(handle)
  }

  private func configure(_ mode: Mode) throws(StorageError) {
    if mode == .writer {
      let journal = try first("PRAGMA journal_mode = WAL") { $0.text(0) }
      guard journal == "wal" else {
        throw StorageError(.unavailable, operation: operation, detail: "the file system cannot hold a write-ahead log")
      }
    }
    if mode == .copy { _ = try first("PRAGMA journal_mode = MEMORY") { $0.text(0) } }
    // FULL: a commit that was acknowledged survives a power cut; NORMAL was measured to lose them.
    try run("PRAGMA synchronous = \(mode == .copy ? "OFF" : "FULL")")
    try run("PRAGMA foreign_keys = ON")
    try run("PRAGMA trusted_schema = OFF")
    try run("PRAGMA temp_store = MEMORY")
    try run("PRAGMA cache_size = -\(Limits.pageCacheKiB)")
    try run("PRAGMA journal_size_limit = \(Limits.logSizeBytes)")
    try run("PRAGMA wal_autocheckpoint = \(Limits.logPages)")
    if mode == .reader { try run("PRAGMA query_only = ON") }
  }

  // MARK: For the stores

  /// The statement of `sql`, prepared before or now, without values. It holds until the operation ends.
  package func statement(_ sql: String) throws(StorageError) -> SQLiteStatement {
    let statement = try lend(sql)
    lent.append(statement)
    return statement
  }

  /// Runs a statement that answers no rows. Returns how many rows it changed.
  @discardableResult
  package func execute(_ sql: String, _ values: SQLiteValue...) throws(StorageError) -> Int {
    try execute(sql, values)
  }

  @discardableResult
  package func execute(_ sql: String, _ values: [SQLiteValue]) throws(StorageError) -> Int {
    let statement = try lend(sql, values)
    defer { giveBack(statement) }
    while try statement.step() {}
    // The handle is live until `deinit`.
    return Int(unsafe sqlite3_changes(handle))
  }

  /// Runs a statement that answers no rows once for each element, which is cheaper than asking for it each time. Returns how
  /// many rows that changed.
  @discardableResult
  package func execute<Element>(
    _ sql: String, forEach elements: [Element], _ values: (Element) -> [SQLiteValue]
  ) throws(StorageError) -> Int {
    let statement = try lend(sql)
    defer { giveBack(statement) }
    var changes = 0
    for element in elements {
      try bind(values(element), to: statement)
      while try statement.step() {}
      statement.reset()
      // The handle is live until `deinit`.
      changes += Int(unsafe sqlite3_changes(handle))
    }
    return changes
  }

  /// The first row for each element, in their order, or nil.
  package func first<Element, Value>(
    _ sql: String, forEach elements: [Element], _ values: (Element) -> [SQLiteValue],
    map: (SQLiteRow) throws(StorageError) -> Value
  ) throws(StorageError) -> [Value?] {
    let statement = try lend(sql)
    defer { giveBack(statement) }
    var found: [Value?] = []
    found.reserveCapacity(elements.count)
    for element in elements {
      try bind(values(element), to: statement)
      found.append(try statement.step() ? try map(statement.row) : nil)
      statement.reset()
    }
    return found
  }

  /// Every row, in the statement's order.
  package func all<Value>(
    _ sql: String,
    _ values: SQLiteValue...,
    map: (SQLiteRow) throws(StorageError) -> Value
  ) throws(StorageError) -> [Value] {
    let statement = try lend(sql, values)
    defer { giveBack(statement) }
    var rows: [Value] = []
    while try statement.step() { rows.append(try map(statement.row)) }
    return rows
  }

  /// The first row, or nil.
  package func first<Value>(
    _ sql: String,
    _ values: SQLiteValue...,
    map: (SQLiteRow) throws(StorageError) -> Value
  ) throws(StorageError) -> Value? {
    try first(sql, values, map: map)
  }

  package func first<Value>(
    _ sql: String,
    _ values: [SQLiteValue],
    map: (SQLiteRow) throws(StorageError) -> Value
  ) throws(StorageError) -> Value? {
    let statement = try lend(sql, values)
    defer { giveBack(statement) }
    guard try statement.step() else { return nil }
    return try map(statement.row)
  }

  /// Hands each row to `body` until it returns false.
  package func forEach(
    _ sql: String,
    _ values: SQLiteValue...,
    body: (SQLiteRow) throws(StorageError) -> Bool
  ) throws(StorageError) {
    try forEach(sql, values, body: body)
  }

  package func forEach(
    _ sql: String,
    _ values: [SQLiteValue],
    body: (SQLiteRow) throws(StorageError) -> Bool
  ) throws(StorageError) {
    let statement = try lend(sql, values)
    defer { giveBack(statement) }
    while try statement.step() {
      guard try body(statement.row) else { return }
    }
  }

  // MARK: For the engine

  /// Runs a script of several statements.
  func run(_ script: String) throws(StorageError) {
    // The text lives through the call; there is no callback, and the message stays with the connection.
    let code = unsafe sqlite3_exec(handle, script, nil, nil, nil)
    guard code == SQLITE_OK else { throw unsafe StorageError(code: code, database: handle, operation: operation) }
  }

  /// Writes a page that says what it said before.
  func writeVersionAgain() throws(StorageError) {
    let version = try first("PRAGMA user_version") { $0.integer(0) } ?? 0
    try run("PRAGMA user_version = \(version)")
  }

  /// Copies every page that the running transaction sees into the file of `target`, which is empty.
  func copy(to target: SQLiteConnection, told: (Int64, Int64) -> Void) throws(StorageError) {
    // Both handles are live until their `deinit`, which comes after `finish` has ended the copy.
    guard let copy = unsafe sqlite3_backup_init(target.handle, "main", handle, "main") else {
      throw unsafe StorageError(
        code: sqlite3_errcode(target.handle), database: target.handle, operation: target.operation)
    }
    var code = SQLITE_OK
    while code == SQLITE_OK {
      code = unsafe sqlite3_backup_step(copy, Limits.copiedPages)
      let total = Int64(unsafe sqlite3_backup_pagecount(copy))
      told(total - Int64(unsafe sqlite3_backup_remaining(copy)), total)
    }
    let ending = unsafe sqlite3_backup_finish(copy)
    guard code == SQLITE_DONE, ending == SQLITE_OK else {
      throw unsafe StorageError(code: code, database: target.handle, operation: target.operation)
    }
  }

  /// Errors: `corrupt` when SQLite finds anything wrong with the file.
  func checkIntegrity() throws(StorageError) {
    let found = try first("PRAGMA integrity_check(1)") { $0.text(0) } ?? ""
    guard found == "ok" else { throw StorageError(.corrupt, operation: operation, detail: found) }
  }

  /// False once SQLite has rolled the transaction back by itself, as it does when the disk is full.
  var isInTransaction: Bool {
    // The handle is live until `deinit`.
    unsafe sqlite3_get_autocommit(handle) == 0
  }

  /// Takes back every statement that the operation asked for.
  func endOperation() {
    for statement in lent { giveBack(statement) }
    lent.removeAll(keepingCapacity: true)
  }

  private func lend(_ sql: String, _ values: [SQLiteValue] = []) throws(StorageError) -> SQLiteStatement {
    let statement = try lend(sql)
    do throws(StorageError) {
      try bind(values, to: statement)
    } catch {
      giveBack(statement)
      throw error
    }
    return statement
  }

  private func bind(_ values: [SQLiteValue], to statement: SQLiteStatement) throws(StorageError) {
    var index: Int32 = 1
    for value in values {
      try statement.bind(value, at: index)
      index += 1
    }
  }

  private func lend(_ sql: String) throws(StorageError) -> SQLiteStatement {
    if let cached = cache[sql], !cached.isLent {
      cached.isLent = true
      return cached
    }
    // The same SQL used inside its own loop, or a full cache: a statement for this once.
    let isCached = cache[sql] == nil && cache.count < Limits.cachedStatements
    let statement = try unsafe SQLiteStatement(
      sql: sql, database: handle, cell: cell, isCached: isCached, operation: operation)
    statement.isLent = true
    if isCached { cache[sql] = statement }
    return statement
  }

  private func giveBack(_ statement: SQLiteStatement) {
    statement.reset()
    statement.isLent = false
  }
}
