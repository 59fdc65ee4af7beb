import LatchkeyModel
import Storage

/// The table `used_challenges`.
struct PostgreSQLChallenges: ChallengeRows {
  let db: PostgreSQLConnection

  func isUsed(_ challenge: UsedChallenge) async throws(StorageError) -> Bool {
    guard try await insert(challenge) else { return true }
    // Until this transaction ends, everybody who uses it waits to see whether the row stays.
    try await db.execute(
      "DELETE FROM used_challenges WHERE expires_at = $1 AND hash = $2", .time(challenge.expiry), .bytes(challenge.hash)
    )
    return false
  }

  func insert(_ challenge: UsedChallenge) async throws(StorageError) -> Bool {
    try await db.change(
      "INSERT INTO used_challenges (hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
      .bytes(challenge.hash), .time(challenge.expiry)
    ) == 1
  }

  static let removeExpired = """
    WITH old AS MATERIALIZED (
      SELECT expires_at, hash FROM used_challenges WHERE expires_at < $1
      ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM used_challenges USING old
    WHERE used_challenges.expires_at = old.expires_at AND used_challenges.hash = old.hash
    """

  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.removeExpired, .time(time), .integer(limit))
  }
}
