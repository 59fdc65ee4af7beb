import CPostgreSQL
import LatchkeyModel
import Storage

/// What the server answered to one statement.
@safe final class PostgreSQLResult {
  // Given up by libpq to us, cleared in `deinit`, never handed out.
  private let handle: OpaquePointer
  let count: Int32
  /// Of the ids that rows are read with.
  let cell: Cell

  init(_ handle: OpaquePointer, idsOf cell: Cell) {
    self.cell = cell
    unsafe self.handle = handle
    // Reads a live result.
    count = unsafe PQntuples(handle)
  }

  deinit {
    // Nobody has the handle any more.
    unsafe PQclear(handle)
  }

  /// How many rows the statement inserted, changed, removed or answered.
  var changes: Int {
    // Empty for a statement that changes no rows; the text lives as long as the result.
    guard let text = unsafe PQcmdTuples(handle) else { return 0 }
    return Int(unsafe String(cString: text)) ?? 0
  }

  /// The first row, or nil.
  var firstRow: PostgreSQLRow? { count > 0 ? PostgreSQLRow(self, 0) : nil }

  func first<Value>(_ map: (PostgreSQLRow) throws(StorageError) -> Value) throws(StorageError) -> Value? {
    guard let firstRow else { return nil }
    return try map(firstRow)
  }

  /// What was done, such as `COMMIT`.
  var command: String {
    // As above.
    guard let text = unsafe PQcmdStatus(handle) else { return "" }
    return unsafe String(cString: text)
  }

  /// Whether it says that everything that was sent is answered.
  var isEnd: Bool {
    // Reads a live result.
    unsafe PQresultStatus(handle) == PGRES_PIPELINE_SYNC
  }

  /// Nil when the statement was carried out, or passed over because one before it was not.
  var failure: PostgreSQLFailure? {
    // Reads a live result.
    let status = unsafe PQresultStatus(handle)
    if status == PGRES_PIPELINE_ABORTED { return nil }
    if status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY { return nil }
    return unsafe PostgreSQLFailure(handle)
  }

  func isNull(_ row: Int32, _ column: Int32) -> Bool {
    // Reads a live result; a row or column that is not there is NULL.
    unsafe PQgetisnull(handle, row, column) == 1
  }

  /// The value's bytes: results are asked for in binary form. Empty for NULL.
  func bytes<Value>(_ row: Int32, _ column: Int32, _ read: (UnsafeRawBufferPointer) -> Value) -> Value {
    let count = Int(unsafe PQgetlength(handle, row, column))
    // The value has that length and lives as long as the result, longer than the call.
    return unsafe read(UnsafeRawBufferPointer(start: PQgetvalue(handle, row, column), count: count))
  }

  /// The number of the column's type in `pg_type`.
  func type(_ column: Int32) -> UInt32 {
    // Reads a live result.
    unsafe PQftype(handle, column)
  }
}
