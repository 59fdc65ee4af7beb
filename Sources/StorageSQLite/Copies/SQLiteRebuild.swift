import LatchkeyModel
import Storage

/// A new database file that is filled with rows from elsewhere. Nobody uses it before it is whole, so that nothing waits
/// for the disk until `finish`.
///
/// It belongs to one thread, and blocks.
package final class SQLiteRebuild {
  private let connection: SQLiteConnection
  package let tables: [SQLiteTable]
  private let triggers: [(name: String, sql: String)]

  /// - Parameters:
  ///   - version: of the schema, as the rows were written under; services go on from there.
  ///   - cell: whose rows they are.
  ///
  /// Errors: `newerSchema` when this release does not know that version.
  package init(path: String, schema: SQLiteSchema, version: Int, cell: Cell = .first) throws(StorageError) {
    guard (1...schema.latest).contains(version) else {
      throw StorageError(.newerSchema(found: version, known: schema.latest), operation: "make \(path)")
    }
    try DatabaseFile.create(path)
    connection = try SQLiteConnection(path: path, mode: .copy)
    try SchemaUpgrade.run(SQLiteSchema(versions: Array(schema.versions[..<version])), in: cell, on: connection)
    // Rows come table by table; what refers to what is looked at once all are there.
    try connection.run("PRAGMA foreign_keys = OFF")
    tables = try SQLiteTable.all(in: connection)
    // Rows come as they were left, so nothing is worked out anew, and none that the schema begins with stays.
    triggers = try connection.all("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'") {
      ($0.text(0), $0.text(1))
    }
    for (name, _) in triggers { try connection.run("DROP TRIGGER \"\(name)\"") }
    for table in tables { try connection.execute("DELETE FROM \"\(table.name)\"") }
  }

  /// Stores rows, each with a value for every column.
  package func insert(_ rows: [[SQLiteValue]], into table: SQLiteTable) throws(StorageError) {
    try connection.run("BEGIN")
    for row in rows { try connection.execute(table.insertion, row) }
    try connection.run("COMMIT")
  }

  /// Looks whether the file is sound, by SQLite's own checks.
  package func finish() throws(StorageError) {
    for (_, sql) in triggers { try connection.run(sql) }
    let orphan = try connection.first("PRAGMA foreign_key_check") { "\($0.text(0)) refers to a missing \($0.text(2))" }
    if let orphan { throw StorageError(.corrupt, operation: connection.operation, detail: orphan) }
    try connection.checkIntegrity()
  }
}
