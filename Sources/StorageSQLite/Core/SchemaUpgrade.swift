import LatchkeyModel
import Storage

/// Brings a file's schema forward to the latest version, all or nothing.
enum SchemaUpgrade {
  /// - Parameter cell: which a new file belongs to from now on, and which one that is there must belong to.
  static func run(
    _ schema: SQLiteSchema, in cell: Cell, on connection: SQLiteConnection
  ) throws(StorageError) {
    let opening = connection.operation
    connection.operation = "schema version"
    // IMMEDIATE: another process that starts at the same moment waits and then finds the work done.
    try connection.run("BEGIN IMMEDIATE")
    do throws(StorageError) {
      let found = Int(try connection.first("PRAGMA user_version") { $0.integer(0) } ?? 0)
      guard found <= schema.latest else {
        throw StorageError(.newerSchema(found: found, known: schema.latest), operation: opening)
      }
      if found == 0 {
        try DatabaseCell.write(cell, on: connection)
      } else {
        let other = try DatabaseCell.read(on: connection)
        guard other == cell else { throw StorageError(.otherCell(found: other, expected: cell), operation: opening) }
      }
      for version in found..<schema.latest {
        connection.operation = "schema version \(version + 1)"
        try connection.run(schema.versions[version])
      }
      if found < schema.latest { try connection.run("PRAGMA user_version = \(schema.latest)") }
      try connection.run("COMMIT")
    } catch {
      if connection.isInTransaction { try? connection.run("ROLLBACK") }
      throw error
    }
  }
}
