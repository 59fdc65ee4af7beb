import LatchkeyModel
import Storage

/// Security events in SQLite.
package struct SQLiteAuditStore: AuditStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func record(_ notes: [AuditNote]) async throws(StorageError) {
    try await database.write { _, changes throws(StorageError) in changes.notes += notes }
  }

  package func events(
    after sequence: Int64, of subject: SubjectID?, limit: Int
  ) async throws(StorageError) -> [AuditEvent] {
    try await database.read { db throws(StorageError) in
      try AuditRow.events(after: sequence, of: subject, limit: limit, in: db)
    }
  }
}
