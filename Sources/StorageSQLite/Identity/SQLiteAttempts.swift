import LatchkeyModel
import Storage

/// The table `sign_in_attempts`.
struct SQLiteAttempts: AttemptRows {
  let db: SQLiteConnection

  func lock(_ target: [UInt8], _ share: String) throws(StorageError) -> CountedTries? {
    try db.first(
      "SELECT failures, last_at FROM sign_in_attempts WHERE identifier_hash = ? AND device_key = ?",
      .blob(target), .text(share)
    ) { row in CountedTries(failures: row.integer(0), lastAt: row.timestamp(1)) }
  }

  func put(_ tries: CountedTries, _ target: [UInt8], _ share: String) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO sign_in_attempts (identifier_hash, device_key, failures, last_at) VALUES (?, ?, ?, ?)
      ON CONFLICT (identifier_hash, device_key) DO UPDATE SET failures = excluded.failures, last_at = excluded.last_at
      """,
      .blob(target), .text(share), .integer(tries.failures), .time(tries.lastAt)
    )
  }

  func remove(_ target: [UInt8], _ share: String) throws(StorageError) {
    try db.execute(
      "DELETE FROM sign_in_attempts WHERE identifier_hash = ? AND device_key = ?", .blob(target), .text(share))
  }

  static let removeOld = """
    DELETE FROM sign_in_attempts WHERE (identifier_hash, device_key) IN
      (SELECT identifier_hash, device_key FROM sign_in_attempts WHERE last_at < ? ORDER BY last_at LIMIT ?)
    """

  func remove(lastBefore time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.removeOld, .time(time), .integer(limit))
  }
}
