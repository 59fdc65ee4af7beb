import LatchkeyModel
import Storage

/// Identity's rows in a PostgreSQL database.
package struct PostgreSQLIdentityStorage: IdentityStorage {
  private let database: PostgreSQLDatabase

  package init(_ database: PostgreSQLDatabase) {
    self.database = database
  }

  package var sharedEndings: (any SharedEndings)? { PostgreSQLEndings(database: database) }
  package var sharedDocuments: (any SharedDocuments)? { PostgreSQLDocuments(database: database) }
  package var sharedSigningKeys: (any SharedSigningKeys)? { PostgreSQLSigningKeys(database: database) }

  package func write<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.write(Operation.name, about: operation.rows) { db async throws(StorageError) in
      try await operation.run(in: PostgreSQLIdentityTransaction(db: db))
    }
  }

  package func read<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await database.read(Operation.name) { db async throws(StorageError) in
      try await operation.run(in: PostgreSQLIdentityTransaction(db: db))
    }
  }
}
