import LatchkeyModel
import Storage

/// The identity service's database file, for the operations that still decide in their store, and who is told when
/// sessions begin and end. What moved to the domain runs through `SQLiteIdentityStorage`.
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
    let audit = audit
    let (value, changes) = try await database.write(name) { db async throws(StorageError) in
      try await Self.record(body, audit, in: db)
    }
    if !changes.isEmpty {
      for listener in listeners { listener.sessionsChanged(changes) }
    }
    return value
  }

  private static func record<Value>(
    _ body: (SQLiteConnection, inout SessionChanges) throws(StorageError) -> Value, _ audit: AuditChain,
    in db: SQLiteConnection
  ) async throws(StorageError) -> (Value, SessionChanges) {
    var changes = SessionChanges()
    let value = try body(db, &changes)
    try await audit.append(changes.auditNotes, to: SQLiteAudit(db: db))
    return (value, changes)
  }

  func read<Value: Sendable>(
    _ name: String = #function,
    _ body: @escaping @Sendable (SQLiteConnection) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await database.read(name, body)
  }
}
