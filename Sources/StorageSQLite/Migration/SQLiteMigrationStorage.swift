import Storage

/// The migrator's rows in a SQLite file.
package struct SQLiteMigrationStorage: MigrationStorage {
  private let database: SQLiteDatabase

  package init(_ database: SQLiteDatabase) {
    self.database = database
  }

  /// A file belongs to one process.
  package var isShared: Bool { false }

  package func write<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.write(Operation.name) { db async throws(StorageError) in
      try await operation.run(in: SQLiteMigrationTransaction(db: db))
    }
  }

  package func read<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.read(Operation.name) { db async throws(StorageError) in
      try await operation.run(in: SQLiteMigrationTransaction(db: db))
    }
  }
}

/// A transaction on the writer's or a reader's connection, for the time that one operation runs.
struct SQLiteMigrationTransaction: MigrationTransaction {
  let db: SQLiteConnection

  var owners: SQLiteOwners { SQLiteOwners(db: db) }
  var counts: SQLiteCounts { SQLiteCounts(db: db) }
  var records: SQLiteRecords { SQLiteRecords(db: db) }
  var plans: SQLitePlans { SQLitePlans(db: db) }
  var migrations: SQLiteMigrations { SQLiteMigrations(db: db) }
  var reports: SQLiteReports { SQLiteReports(db: db) }
  var merged: SQLiteMerged { SQLiteMerged(db: db) }
  var setAside: SQLiteSetAside { SQLiteSetAside(db: db) }
  var moved: SQLiteMoved { SQLiteMoved(db: db) }
}
