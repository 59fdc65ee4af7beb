import LatchkeyModel
import Storage

/// Grants to QR sessions in SQLite.
package struct SQLiteQRGrantStore: QRGrantStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func issue(_ grant: QRGrant) async throws(StorageError) -> QRGrantOutcome {
    try await database.write { db, changes throws(StorageError) in
      let now = grant.draft.now
      changes.address = grant.draft.address
      let earlier = try Self.find(grant.qrSession, in: db)
      if earlier?.isRevoked == true { return .revoked }
      guard let subject = try SubjectRow.find(grant.subject, in: db), subject.isAccount else { return .noAccount }
      guard let confirmer = try SessionRow.live(grant.confirmedBy, at: now, in: db),
        confirmer.subject == grant.subject, !confirmer.isGuest
      else { return .confirmerGone }
      if let earlier = earlier?.session {
        try SessionRow.end(earlier, because: .replaced, at: now, in: db, noting: &changes)
      }
      let session = grant.draft.session(
        of: grant.subject, isGuest: false, deviceKeyThumbprint: grant.draft.boundKeyThumbprint)
      try SessionRow.insert(session, into: db, noting: &changes)
      try db.execute(
        """
        INSERT INTO qr_grants (qr_session_id, sid, created_at) VALUES (?, ?, ?)
        ON CONFLICT (qr_session_id) DO UPDATE SET sid = excluded.sid
        """,
        .text(grant.qrSession), .id(session.id), .time(now)
      )
      return .issued(session, subject.profile)
    }
  }

  package func revoke(qrSession: String, at now: Timestamp) async throws(StorageError) -> Int {
    try await database.write { db, changes throws(StorageError) in
      let earlier = try Self.find(qrSession, in: db)
      try db.execute(
        """
        INSERT INTO qr_grants (qr_session_id, created_at, revoked_at) VALUES (?, ?, ?)
        ON CONFLICT (qr_session_id) DO UPDATE SET revoked_at = coalesce(revoked_at, excluded.revoked_at)
        """,
        .text(qrSession), .time(now), .time(now)
      )
      guard let session = earlier?.session else { return 0 }
      try SessionRow.end(session, because: .qrRevoked, at: now, in: db, noting: &changes)
      return changes.ended.count
    }
  }

  private static func find(
    _ qrSession: String, in db: SQLiteConnection
  ) throws(StorageError) -> (session: SessionID?, isRevoked: Bool)? {
    try db.first(
      "SELECT sid, revoked_at FROM qr_grants WHERE qr_session_id = ?", .text(qrSession)
    ) { row throws(StorageError) in
      (session: try row.optionalID(0), isRevoked: !row.isNull(1))
    }
  }
}
