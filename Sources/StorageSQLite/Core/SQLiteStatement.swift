import CSQLite
import LatchkeyModel
import Storage

/// One prepared statement. Belongs to its connection and its connection's thread; `SQLiteConnection` resets it when
/// the operation that asked for it ends.
@safe package final class SQLiteStatement {
  // Made in `init`, finalised in `deinit`, never handed out.
  private let handle: OpaquePointer
  let sql: String
  let cell: Cell
  /// Some caller uses it, so that the same SQL asked for again needs another one.
  var isLent = false

  /// `database` outlives the statement: the connection finalises its statements first.
  init(
    sql: String, database: OpaquePointer, cell: Cell, isCached: Bool, operation: String
  ) throws(StorageError) {
    var prepared: OpaquePointer?
    let flags = isCached ? UInt32(SQLITE_PREPARE_PERSISTENT) : 0
    // The text lives through the call and its length is not needed: SQLite stops at the NUL that Swift appends.
    let code = unsafe sqlite3_prepare_v3(database, sql, -1, flags, &prepared, nil)
    guard code == SQLITE_OK, let prepared = unsafe prepared else {
      throw unsafe StorageError(
        code: code == SQLITE_OK ? SQLITE_MISUSE : code, database: database, operation: operation)
    }
    unsafe self.handle = prepared
    self.sql = sql
    self.cell = cell
  }

  deinit {
    // The only reference to a statement that `init` made.
    unsafe sqlite3_finalize(handle)
  }

  // MARK: Parameters, counted from 1

  package func bind(_ value: Int64, at index: Int32) throws(StorageError) {
    // The handle is live until `deinit`.
    try check(unsafe sqlite3_bind_int64(handle, index, value))
  }

  package func bind(_ value: String, at index: Int32) throws(StorageError) {
    var value = value
    let code = value.withUTF8 { bytes in
      unsafe bytes.withMemoryRebound(to: CChar.self) { characters in
        // The length is given, so a NUL inside is kept; SQLite copies the text before the call returns.
        guard let start = characters.baseAddress else {
          // An empty string may have no address, which SQLite would take for NULL.
          return unsafe sqlite3_bind_text64(handle, index, "", 0, latchkey_sqlite_transient(), UInt8(SQLITE_UTF8))
        }
        return unsafe sqlite3_bind_text64(
          handle, index, start, UInt64(characters.count), latchkey_sqlite_transient(), UInt8(SQLITE_UTF8))
      }
    }
    try check(code)
  }

  package func bind(_ value: [UInt8], at index: Int32) throws(StorageError) {
    guard !value.isEmpty else {
      // An empty array may have no address, which SQLite would take for NULL.
      try check(unsafe sqlite3_bind_zeroblob(handle, index, 0))
      return
    }
    let code = unsafe value.withUnsafeBytes { bytes in
      // SQLite copies the bytes before the call returns.
      unsafe sqlite3_bind_blob64(handle, index, bytes.baseAddress, UInt64(bytes.count), latchkey_sqlite_transient())
    }
    try check(code)
  }

  package func bindNull(at index: Int32) throws(StorageError) {
    // The handle is live until `deinit`.
    try check(unsafe sqlite3_bind_null(handle, index))
  }

  package func bind(_ value: SQLiteValue, at index: Int32) throws(StorageError) {
    switch value {
    case .null: try bindNull(at: index)
    case .integer(let value): try bind(value, at: index)
    case .text(let value): try bind(value, at: index)
    case .blob(let value): try bind(value, at: index)
    }
  }

  // MARK: Running

  /// True: the statement stands on a row. False: it is done.
  package func step() throws(StorageError) -> Bool {
    // The handle is live until `deinit`, and the connection belongs to this thread.
    switch unsafe sqlite3_step(handle) {
    case SQLITE_ROW: return true
    case SQLITE_DONE: return false
    case let code: throw error(code)
    }
  }

  /// Back to the start, without the values that were bound.
  package func reset() {
    // The results repeat the error of the last step, which its caller has already had.
    unsafe sqlite3_reset(handle)
    unsafe sqlite3_clear_bindings(handle)
  }

  // MARK: Columns, counted from 0

  package var row: SQLiteRow { SQLiteRow(self) }

  func isNull(_ column: Int32) -> Bool {
    // Reads the current row of a live statement; a column that is not there is NULL.
    unsafe sqlite3_column_type(handle, column) == SQLITE_NULL
  }

  func integer(_ column: Int32) -> Int64 {
    // As above.
    unsafe sqlite3_column_int64(handle, column)
  }

  func text(_ column: Int32) -> String {
    // The pointer holds until the next call on this statement: it is read to its length and copied first.
    guard let start = unsafe sqlite3_column_text(handle, column) else { return "" }
    let count = Int(unsafe sqlite3_column_bytes(handle, column))
    return unsafe String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
  }

  func blob(_ column: Int32) -> [UInt8] {
    // As above; SQLite answers NULL for an empty blob.
    guard let start = unsafe sqlite3_column_blob(handle, column) else { return [] }
    let count = Int(unsafe sqlite3_column_bytes(handle, column))
    return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: count))
  }

  func value(_ column: Int32) throws(StorageError) -> SQLiteValue {
    // As above.
    switch unsafe sqlite3_column_type(handle, column) {
    case SQLITE_NULL: return .null
    case SQLITE_INTEGER: return .integer(integer(column))
    case SQLITE_BLOB: return .blob(blob(column))
    case SQLITE_TEXT:
      // SQLite gives the bytes of a text as they are.
      guard let text = String(validating: blob(column), as: UTF8.self) else {
        throw StorageError(.corrupt, operation: sql.firstWords, detail: "a text is not UTF-8")
      }
      return .text(text)
    default: throw StorageError(.corrupt, operation: sql.firstWords, detail: "a number has a fraction")
    }
  }

  // MARK: Errors

  private func check(_ code: Int32) throws(StorageError) {
    if code != SQLITE_OK { throw error(code) }
  }

  private func error(_ code: Int32) -> StorageError {
    // The connection of a live statement is live.
    unsafe StorageError(code: code, database: sqlite3_db_handle(handle), operation: sql.firstWords)
  }
}

extension String {
  /// The beginning of a statement, enough to tell which one it is.
  fileprivate var firstWords: String { String(prefix(48)) }
}
