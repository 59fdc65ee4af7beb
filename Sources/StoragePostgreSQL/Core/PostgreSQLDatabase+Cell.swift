import LatchkeyModel
import Storage

extension PostgreSQLDatabase {
  /// What a part's schema has for it: one row at most.
  static let cellStatements = [
    """
    CREATE TABLE latchkey_cell (
      one  boolean NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
      cell bigint NOT NULL CHECK (cell BETWEEN 0 AND 65535)
    )
    """
  ]

  /// Which cell a part's tables belong to; nil where there are none. Changes nothing.
  package static func cell(of schema: PostgreSQLSchema, at url: PostgreSQLURL) async throws(StorageError) -> Cell? {
    let database = try await look(at: url, schema: schema)
    let result: Result<Cell?, StorageError>
    do throws(StorageError) {
      result = .success(
        try await database.read("look whose cell the database is") { db throws(StorageError) in
          let isThere = try await db.first("SELECT to_regclass('latchkey_cell') IS NOT NULL") { $0.bool(0) }
          guard isThere == true else { return nil }
          return try await db.first("SELECT cell FROM latchkey_cell") { Cell(UInt16(clamping: $0.integer(0))) }
        })
    } catch {
      result = .failure(error)
    }
    await database.close()
    return try result.get()
  }

  /// Has a new database belong to the cell that it was opened for. Before anything is stored in it.
  ///
  /// Errors: `otherCell` for one that belongs to another.
  package func claimCell() async throws(StorageError) {
    try await write("look whose cell the database is") { db throws(StorageError) in try await db.claimCell() }
  }
}

extension PostgreSQLConnection {
  /// The same, as part of a transaction.
  package func claimCell() async throws(StorageError) {
    try await execute(
      "INSERT INTO latchkey_cell (cell) VALUES ($1) ON CONFLICT DO NOTHING", .integer(Int64(cells.own.number)))
    try await checkCell()
  }

  /// Errors: `otherCell` for a database that belongs to another.
  package func checkCell() async throws(StorageError) {
    let found = try await first("SELECT cell FROM latchkey_cell") { Cell(UInt16(clamping: $0.integer(0))) }
    guard let found, found != cells.own else { return }
    throw StorageError(.otherCell(found: found, expected: cells.own), operation: "open the database")
  }
}
