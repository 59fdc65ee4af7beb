import LatchkeyModel
import Storage

/// The table `sign_in_replays`.
struct PostgreSQLReplays: SignInReplayRows {
  let db: PostgreSQLConnection

  func find(_ key: [UInt8]) async throws(StorageError) -> SignInReplay? {
    try await db.first(Self.select, .bytes(key), map: Self.map)
  }

  private static let select = """
    SELECT sid, previous_sub, promoted, wipe, merge_id, expires_at FROM sign_in_replays WHERE key_hash = $1
    """

  func lock(_ key: [UInt8]) async throws(StorageError) -> SignInReplay? {
    try await db.lock("sign_in_replays", .bytes(key))
    return try await db.first("\(Self.select) FOR UPDATE", .bytes(key), map: Self.map)
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> SignInReplay {
    SignInReplay(
      session: try row.id(0), previousSubject: try row.optionalID(1), isPromoted: row.boolean(2),
      isWipeRequired: row.boolean(3), merge: try row.optionalID(4), expiry: row.timestamp(5))
  }

  func put(_ replay: SignInReplay, _ key: [UInt8]) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO sign_in_replays (key_hash, sid, previous_sub, wipe, merge_id, expires_at, promoted)
      VALUES ($1, $2, $3, $4, $5, $6, $7)
      ON CONFLICT (key_hash) DO UPDATE SET sid = excluded.sid, previous_sub = excluded.previous_sub,
        wipe = excluded.wipe, merge_id = excluded.merge_id, expires_at = excluded.expires_at,
        promoted = excluded.promoted
      """,
      .bytes(key), .id(replay.session), .optional(replay.previousSubject?.bytes), .boolean(replay.isWipeRequired),
      .optional(replay.merge?.bytes), .time(replay.expiry), .boolean(replay.isPromoted)
    )
  }

  func removeExpired(at now: Timestamp, limit: Int) async throws(StorageError) {
    try await db.execute(
      """
      WITH old AS MATERIALIZED (
        SELECT key_hash FROM sign_in_replays WHERE expires_at <= $1
        ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
      DELETE FROM sign_in_replays USING old WHERE sign_in_replays.key_hash = old.key_hash
      """,
      .time(now), .integer(limit))
  }
}
