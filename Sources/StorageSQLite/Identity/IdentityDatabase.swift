import LatchkeyModel
import Storage

/// The identity service's database file, and who is told when sessions begin and end.
package struct IdentityDatabase: Sendable {
  private let database: SQLiteDatabase
  let audit: AuditChain
  private let listeners: [any SessionListener]

  package init(_ database: SQLiteDatabase, audit: AuditChain, listeners: [any SessionListener] = []) {
    self.database = database
    self.audit = audit
    self.listeners = listeners
  }

  /// Runs `body` as one durable change, with the security events that it is; then tells the listeners of the sessions
  /// that `body` began and ended.
  func write<Value: Sendable>(
    _ name: String = #function,
    _ body: @escaping @Sendable (SQLiteConnection, inout SessionChanges) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    let (value, changes) = try await database.write(name) {
      [audit] db throws(StorageError) -> (Value, SessionChanges) in
      var changes = SessionChanges()
      let value = try body(db, &changes)
      try AuditRow.append(changes.auditNotes, audit, in: db)
      return (value, changes)
    }
    if !changes.isEmpty {
      for listener in listeners { listener.sessionsChanged(changes) }
    }
    return value
  }

  func read<Value: Sendable>(
    _ name: String = #function,
    _ body: @escaping @Sendable (SQLiteConnection) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await database.read(name, body)
  }
}
