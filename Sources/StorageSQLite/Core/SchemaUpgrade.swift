import Storage

/// Brings a file's schema forward to the latest version, all or nothing.
enum SchemaUpgrade {
  static func run(_ schema: SQLiteSchema, on connection: SQLiteConnection) throws(StorageError) {
    let opening = connection.operation
    connection.operation = "schema version"
    // IMMEDIATE: another process that starts at the same moment waits and then finds the work done.
    try connection.run("BEGIN IMMEDIATE")
    do throws(StorageError) {
      let found = Int(try connection.first("PRAGMA user_version") { $0.integer(0) } ?? 0)
      guard found <= schema.latest else {
        throw StorageError(.newerSchema(found: found, known: schema.latest), operation: opening)
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
