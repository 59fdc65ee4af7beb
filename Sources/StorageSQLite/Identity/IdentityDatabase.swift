import LatchkeyModel
import Storage

/// The identity service's database file, and who is told when sessions end.
package struct IdentityDatabase: Sendable {
  private let database: SQLiteDatabase
  private let listener: (any EndedSessionListener)?

  package init(_ database: SQLiteDatabase, listener: (any EndedSessionListener)? = nil) {
    self.database = database
    self.listener = listener
  }

  /// Runs `body` as one durable change, then tells the listener of the sessions that `body` ended.
  func write<Value: Sendable>(
    _ name: String = #function,
    _ body: @escaping @Sendable (SQLiteConnection, inout [EndedSession]) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    let (value, ended) = try await database.write(name) { db throws(StorageError) -> (Value, [EndedSession]) in
      var ended: [EndedSession] = []
      let value = try body(db, &ended)
      return (value, ended)
    }
    if !ended.isEmpty { listener?.sessionsEnded(ended) }
    return value
  }

  func read<Value: Sendable>(
    _ name: String = #function,
    _ body: @escaping @Sendable (SQLiteConnection) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await database.read(name, body)
  }
}
