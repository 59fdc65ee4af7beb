import LatchkeyModel
import Storage

/// What a database file holds at one moment. Its service may go on writing meanwhile; the write-ahead log grows for as
/// long as the snapshot is kept, because what it sees cannot be folded into the file.
///
/// It belongs to one thread, and blocks.
package final class SQLiteSnapshot {
  private let connection: SQLiteConnection
  /// The version of the schema.
  package let version: Int
  /// Which cell the file belongs to.
  package let cell: Cell
  package let tables: [SQLiteTable]

  /// Errors: `unavailable` when there is no such file.
  package init(path: String) throws(StorageError) {
    connection = try SQLiteConnection(path: path, mode: .reader)
    try connection.run("BEGIN")
    // The first reading is what the transaction stays with.
    version = Int(try connection.first("PRAGMA user_version") { $0.integer(0) } ?? 0)
    cell = try DatabaseCell.read(on: connection)
    tables = try SQLiteTable.all(in: connection)
  }

  package func rowCount(of table: SQLiteTable) throws(StorageError) -> Int64 {
    try connection.first("SELECT count(*) FROM \"\(table.name)\"") { $0.integer(0) } ?? 0
  }

  /// Hands over each row's values, in the order of the table's columns.
  package func forEachRow(
    of table: SQLiteTable, _ body: ([SQLiteValue]) throws(StorageError) -> Void
  ) throws(StorageError) {
    let columns = Int32(table.columns.count)
    try connection.forEach(table.selection) { row throws(StorageError) in
      var values: [SQLiteValue] = []
      for column in 0..<columns { values.append(try row.value(column)) }
      try body(values)
      return true
    }
  }

  /// Makes a database file of its own with everything that the snapshot sees, for the owner only.
  ///
  /// - Parameter told: how many of how many pages are there.
  package func copy(to path: String, told: (Int64, Int64) -> Void) throws(StorageError) {
    try DatabaseFile.create(path)
    let target = try SQLiteConnection(path: path, mode: .copy)
    try connection.copy(to: target, told: told)
    try target.checkIntegrity()
  }
}
