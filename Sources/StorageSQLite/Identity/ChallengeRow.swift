import LatchkeyModel
import Storage

/// Statements of the table `used_challenges`.
enum ChallengeRow {
  /// By its expiry as well, with which the key of the table begins: by the hash alone all used ones would be read.
  static let selectUsed = "SELECT 1 FROM used_challenges WHERE expires_at = ? AND hash = ?"

  static func isUsed(_ challenge: UsedChallenge, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try db.first(selectUsed, .time(challenge.expiry), .blob(challenge.hash)) { _ in true } ?? false
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
