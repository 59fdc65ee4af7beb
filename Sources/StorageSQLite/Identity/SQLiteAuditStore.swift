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

  package func checkpoint() async throws(StorageError) -> AuditCheckpoint? {
    try await database.read { db throws(StorageError) in try SQLiteAudit(db: db).checkpoint() }
  }

  package func trim(before time: Timestamp, limit: Int, at now: Timestamp) async throws(StorageError) -> Int {
    try await database.write { [chain = database.audit] db, _ throws(StorageError) in
      try SQLiteAudit(db: db).trim(before: time, limit: limit, at: now, chain)
    }
  }

  package func count(of kind: AuditNote.Kind) async throws(StorageError) -> Int {
    try await database.read { db throws(StorageError) in
      let count = try db.first("SELECT count(*) FROM audit_events WHERE kind = ?", .text(kind.rawValue)) {
        $0.integer(0)
      }
      return Int(count ?? 0)
    }
  }

  package func events(
    after sequence: Int64, of subject: SubjectID?, limit: Int
  ) async throws(StorageError) -> [AuditEvent] {
    try await database.read { db throws(StorageError) in
      try SQLiteAudit(db: db).events(after: sequence, of: subject, limit: limit)
    }
  }
}
