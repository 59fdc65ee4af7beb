import LatchkeyModel
import Storage

/// The table `qr_grants`.
struct SQLiteGrants: QRGrantRows {
  let db: SQLiteConnection

  func lock(_ qrSession: String) throws(StorageError) -> QRGrantRecord? { try find(qrSession) }

  func find(_ qrSession: String) throws(StorageError) -> QRGrantRecord? {
    try db.first(
      "SELECT sid, created_at, revoked_at, turn FROM qr_grants WHERE qr_session_id = ?", .text(qrSession)
    ) { row throws(StorageError) in
      QRGrantRecord(
        session: try row.optionalID(0), createdAt: row.timestamp(1), isRevoked: !row.isNull(2),
        turn: row.isNull(3) ? nil : row.integer(3))
    }
  }

  func put(_ qrSession: String, session: SessionID?, turn: Int64?, at now: Timestamp) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO qr_grants (qr_session_id, sid, created_at, turn) VALUES (?, ?, ?, ?)
      ON CONFLICT (qr_session_id) DO UPDATE SET
        sid = coalesce(excluded.sid, sid), turn = coalesce(excluded.turn, turn)
      """,
      .text(qrSession), session.map { .id($0) } ?? .null, .time(now), .optional(turn)
    )
  }

  func revoke(_ qrSession: String, at now: Timestamp) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO qr_grants (qr_session_id, created_at, revoked_at) VALUES (?, ?, ?)
      ON CONFLICT (qr_session_id) DO UPDATE SET revoked_at = coalesce(revoked_at, excluded.revoked_at)
      """,
      .text(qrSession), .time(now), .time(now)
    )
  }

  func change(_ session: SessionID, to other: SessionID) throws(StorageError) {
    try db.execute("UPDATE qr_grants SET sid = ? WHERE sid = ?", .id(other), .id(session))
  }

  static let removeEmpty = """
    DELETE FROM qr_grants WHERE qr_session_id IN
      (SELECT qr_session_id FROM qr_grants WHERE sid IS NULL AND created_at < ? ORDER BY created_at LIMIT ?)
    """

  func remove(emptyBefore time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.removeEmpty, .time(time), .integer(limit))
  }
}
