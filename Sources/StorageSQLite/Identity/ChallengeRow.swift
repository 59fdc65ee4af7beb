import LatchkeyModel
import Storage

/// Statements of the table `used_challenges`.
enum ChallengeRow {
  static func isUsed(_ challenge: UsedChallenge, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try db.first("SELECT 1 FROM used_challenges WHERE hash = ?", .blob(challenge.hash)) { _ in true } ?? false
  }

  /// False when it was used before.
  static func spend(_ hash: [UInt8], until expiry: Timestamp, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try db.execute(
      "INSERT INTO used_challenges (hash, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
      .blob(hash),
      .time(expiry)
    ) == 1
  }

  @discardableResult
  static func spend(_ challenge: UsedChallenge, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try spend(challenge.hash, until: challenge.expiry, in: db)
  }
}
