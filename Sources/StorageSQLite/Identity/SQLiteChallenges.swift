import LatchkeyModel
import Storage

/// The table `used_challenges`.
struct SQLiteChallenges: ChallengeRows {
  let db: SQLiteConnection

  /// By its expiry as well, with which the key of the table begins: by the hash alone all used ones would be read.
  static let selectUsed = "SELECT 1 FROM used_challenges WHERE expires_at = ? AND hash = ?"

  func isUsed(_ challenge: UsedChallenge) throws(StorageError) -> Bool {
    try db.first(Self.selectUsed, .time(challenge.expiry), .blob(challenge.hash)) { _ in true } ?? false
  }

  func insert(_ challenge: UsedChallenge) throws(StorageError) -> Bool {
    try db.execute(
      "INSERT INTO used_challenges (hash, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
      .blob(challenge.hash), .time(challenge.expiry)
    ) == 1
  }

  static let removeExpired = """
    DELETE FROM used_challenges WHERE (expires_at, hash) IN
      (SELECT expires_at, hash FROM used_challenges WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
    """

  func remove(expiredBefore time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.removeExpired, .time(time), .integer(limit))
  }
}
