import LatchkeyModel
import Storage

/// Statements of the table `used_challenges`.
enum ChallengeRow {
  /// False when it was used before.
  static func spend(_ hash: [UInt8], until expiry: Timestamp, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try db.execute(
      "INSERT INTO used_challenges (hash, expires_at) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING",
      .blob(hash),
      .time(expiry)
    ) == 1
  }
}
