import LatchkeyModel
import Storage

/// Identity's rows in a SQLite file.
package struct SQLiteIdentityStorage: IdentityStorage {
  private let database: SQLiteDatabase

  package init(_ database: SQLiteDatabase) {
    self.database = database
  }

  package func write<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.write(Operation.name) { db async throws(StorageError) in
      try await operation.run(in: SQLiteIdentityTransaction(db: db))
    }
  }

  package func read<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.read(Operation.name) { db async throws(StorageError) in
      try await operation.run(in: SQLiteIdentityTransaction(db: db))
    }
  }
}
