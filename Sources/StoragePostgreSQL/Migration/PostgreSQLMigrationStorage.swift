import Storage

/// The migrator's rows in a PostgreSQL database.
///
/// Transactions are READ COMMITTED and run beside each other: see ``MigrationTransaction`` for what each locks, and in
/// which order.
package struct PostgreSQLMigrationStorage: MigrationStorage {
  private let database: PostgreSQLDatabase

  package init(_ database: PostgreSQLDatabase) {
    self.database = database
  }

  package var isShared: Bool { true }

  package func write<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.write(Operation.name) { db async throws(StorageError) in
      try await operation.run(in: PostgreSQLMigrationTransaction(db: db))
    }
  }

  package func read<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.read(Operation.name) { db async throws(StorageError) in
      try await operation.run(in: PostgreSQLMigrationTransaction(db: db))
    }
  }
}

/// A transaction on one connection, for the time that one operation runs.
struct PostgreSQLMigrationTransaction: MigrationTransaction {
  let db: PostgreSQLConnection

  var owners: PostgreSQLOwners { PostgreSQLOwners(db: db) }
  var counts: PostgreSQLCounts { PostgreSQLCounts(db: db) }
  var records: PostgreSQLRecords { PostgreSQLRecords(db: db) }
  var plans: PostgreSQLPlans { PostgreSQLPlans(db: db) }
  var migrations: PostgreSQLMigrations { PostgreSQLMigrations(db: db) }
  var reports: PostgreSQLReports { PostgreSQLReports(db: db) }
  var merged: PostgreSQLMerged { PostgreSQLMerged(db: db) }
  var setAside: PostgreSQLSetAside { PostgreSQLSetAside(db: db) }
  var moved: PostgreSQLMoved { PostgreSQLMoved(db: db) }
}
