import LatchkeyModel
import Storage
import Synchronization

/// A part's tables looked at, and brought forward, on a connection of its own that is closed again.
package struct PostgreSQLSchemaWork: Sendable {
  package let url: PostgreSQLURL
  package let schema: PostgreSQLSchema
  package var patience = SchemaPatience()

  package init(url: PostgreSQLURL, schema: PostgreSQLSchema) {
    self.url = url
    self.schema = schema
  }

  /// What the database records. Errors: `unavailable` when there is no connection.
  package func state() async throws(StorageError) -> SchemaState {
    let schema = schema
    return try await run { connection throws(StorageError) in
      connection.operation = "look at the schema \(schema.part)"
      return try await SchemaState.read(schema, on: connection)
    }
  }

  /// Makes the steps that this release needs, or what is left of them when another one was ended in the midst. Steps that
  /// contract are made when `contracting`, and where nothing is yet. `report` is called on the connection's thread.
  ///
  /// Errors: `newerSchema` for a database that this release does not work on, `oldInstances` when some are in the way of a
  /// step that contracts, `forbidden` without the right to make tables, `overloaded` when others have locks for too long,
  /// `unavailable` when the connection is lost: what was done stays.
  package func apply(
    contracting: Bool = false, report: @escaping @Sendable (SchemaNews) -> Void = { _ in }
  ) async throws(StorageError) {
    let (schema, patience) = (schema, patience)
    try await run { connection throws(StorageError) in
      try await SchemaUpgrade(schema: schema, connection: connection, patience: patience, report: report)
        .run(contracting: contracting)
    }
  }

  private func run<Value: Sendable>(
    _ body: @escaping @Sendable (PostgreSQLConnection) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    let pool = PostgreSQLPool(
      url, part: schema.part, cells: Cells(),
      patience: PostgreSQLPatience(
        queue: nil, statement: Limits.schemaStatement, lockMilliseconds: patience.lockMilliseconds))
    let value = Mutex<Value?>(nil)
    let failure: StorageError? = await withCheckedContinuation { done in
      pool.start(
        { connection throws(StorageError) in
          let made = try await body(connection)
          value.withLock { $0 = made }
        },
        report: { done.resume(returning: $0) })
    }
    await pool.end()
    if let failure { throw failure }
    guard let value = value.withLock({ $0 }) else { preconditionFailure("without a failure there is a value") }
    return value
  }
}
