import LatchkeyModel
import Storage

/// The table `qr_grants`.
struct PostgreSQLGrants: QRGrantRows {
  let db: PostgreSQLConnection

  private static let select = "SELECT sid, created_at, revoked_at, turn FROM qr_grants WHERE qr_session_id = $1"

  func lock(_ qrSession: String) async throws(StorageError) -> QRGrantRecord? {
    try await db.lock("qr_grants", .text(qrSession))
    return try await db.first("\(Self.select) FOR UPDATE", .text(qrSession), map: Self.map)
  }

  func find(_ qrSession: String) async throws(StorageError) -> QRGrantRecord? {
    try await db.first(Self.select, .text(qrSession), map: Self.map)
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> QRGrantRecord {
    QRGrantRecord(
      session: try row.optionalID(0), createdAt: row.timestamp(1), isRevoked: !row.isNull(2),
      turn: row.isNull(3) ? nil : row.integer(3))
  }

  func put(
    _ qrSession: String, session: SessionID?, turn: Int64?, at now: Timestamp
  ) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO qr_grants (qr_session_id, sid, created_at, turn) VALUES ($1, $2, $3, $4)
      ON CONFLICT (qr_session_id) DO UPDATE SET
        sid = coalesce(excluded.sid, qr_grants.sid), turn = coalesce(excluded.turn, qr_grants.turn)
      """,
      .text(qrSession), session.map { .id($0) } ?? .null, .time(now), .optional(turn)
    )
  }

  func revoke(_ qrSession: String, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO qr_grants (qr_session_id, created_at, revoked_at) VALUES ($1, $2, $3)
      ON CONFLICT (qr_session_id) DO UPDATE SET revoked_at = coalesce(qr_grants.revoked_at, excluded.revoked_at)
      """,
      .text(qrSession), .time(now), .time(now)
    )
  }

  func change(_ session: SessionID, to other: SessionID) async throws(StorageError) {
    try await db.execute("UPDATE qr_grants SET sid = $1 WHERE sid = $2", .id(other), .id(session))
  }

  static let removeEmpty = """
    WITH old AS MATERIALIZED (
      SELECT qr_session_id FROM qr_grants WHERE sid IS NULL AND created_at < $1
      ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM qr_grants USING old WHERE qr_grants.qr_session_id = old.qr_session_id
    """

  func remove(emptyBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.removeEmpty, .time(time), .integer(limit))
  }
}
