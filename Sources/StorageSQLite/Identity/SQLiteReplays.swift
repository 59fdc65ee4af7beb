import LatchkeyModel
import Storage

/// The table `sign_in_replays`.
struct SQLiteReplays: SignInReplayRows {
  let db: SQLiteConnection

  func find(_ key: [UInt8]) throws(StorageError) -> SignInReplay? {
    try db.first(
      "SELECT sid, previous_sub, promoted, wipe, merge_id, expires_at FROM sign_in_replays WHERE key_hash = ?",
      .blob(key)
    ) { row throws(StorageError) in
      SignInReplay(
        session: try row.id(0), previousSubject: try row.optionalID(1), isPromoted: row.boolean(2),
        isWipeRequired: row.boolean(3), merge: try row.optionalID(4), expiry: row.timestamp(5))
    }
  }

  func lock(_ key: [UInt8]) throws(StorageError) -> SignInReplay? { try find(key) }

  func put(_ replay: SignInReplay, _ key: [UInt8]) throws(StorageError) {
    try db.execute(
      """
      INSERT OR REPLACE INTO sign_in_replays (key_hash, sid, previous_sub, wipe, merge_id, expires_at, promoted)
      VALUES (?, ?, ?, ?, ?, ?, ?)
      """,
      .blob(key), .id(replay.session), .optional(replay.previousSubject?.bytes), .boolean(replay.isWipeRequired),
      .optional(replay.merge?.bytes), .time(replay.expiry), .boolean(replay.isPromoted)
    )
  }

  func removeExpired(at now: Timestamp, limit: Int) throws(StorageError) {
    try db.execute(
      """
      DELETE FROM sign_in_replays WHERE key_hash IN
        (SELECT key_hash FROM sign_in_replays WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
      """,
      .time(now), .integer(limit))
  }
}
