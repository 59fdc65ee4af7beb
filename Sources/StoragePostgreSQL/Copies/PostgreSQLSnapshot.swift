import LatchkeyModel
import Storage

/// What a part's tables hold at one moment. Services may go on writing meanwhile; the server keeps what they change for as
/// long as the snapshot is kept.
///
/// It has a connection of its own, belongs to one task, and blocks.
package final class PostgreSQLSnapshot {
  package let connection: PostgreSQLConnection
  /// Which cell the tables belong to.
  package let cell: Cell
  package let tables: [PostgreSQLTable]

  /// Nil where the part has no tables. Nothing is made and nothing is changed.
  ///
  /// Errors: `unavailable` when there is no connection; `newerSchema` and `olderSchema` for tables of another release.
  package static func take(
    of schema: PostgreSQLSchema, at url: PostgreSQLURL
  ) async throws(StorageError) -> PostgreSQLSnapshot? {
    let connection = try PostgreSQLConnection.toLeader(
      url,
      connecting: { url throws(StorageError) in
        try PostgreSQLConnection(url, part: schema.part, cells: Cells(), patience: .ofCopies)
      }
    ).connection
    connection.operation = "read the schema \(schema.part)"
    connection.begin(isReading: true)
    // The first statement is what the transaction stays with. Between two of them a disk may have to be waited for.
    try await connection.execute("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
    let state = try await SchemaState.read(schema, on: connection)
    guard let last = state.records.last else { return nil }
    try state.check(connection.operation)
    guard last.number <= schema.latest else {
      // What a newer release has added may hold what this one would leave behind.
      throw StorageError(
        .newerSchema(found: last.number, known: schema.latest), operation: connection.operation,
        detail: "schema \(schema.part)")
    }
    let cell = try await connection.first("SELECT cell FROM latchkey_cell") { Cell(UInt16(clamping: $0.integer(0))) }
    return PostgreSQLSnapshot(connection, cell: cell ?? .first, try await PostgreSQLTable.all(in: connection))
  }

  private init(_ connection: PostgreSQLConnection, cell: Cell, _ tables: [PostgreSQLTable]) {
    self.connection = connection
    self.cell = cell
    self.tables = tables
  }
}
