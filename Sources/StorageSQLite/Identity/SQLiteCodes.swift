import LatchkeyModel
import Storage

/// The table `one_time_codes`.
struct SQLiteCodes: OneTimeCodeRows {
  let db: SQLiteConnection

  private static let columns = """
    identifier_hash, share, handle_hash, code_hash, expires_at, attempts_left, elsewhere_left, sent_at,
    window_began_at, sends
    """

  func lock(_ identifierHash: [UInt8], _ share: String) throws(StorageError) -> StoredCode? {
    try db.first(
      "SELECT \(Self.columns) FROM one_time_codes WHERE identifier_hash = ? AND share = ?",
      .blob(identifierHash), .text(share), map: Self.map)
  }

  func lockAll(of identifierHash: [UInt8]) throws(StorageError) -> [StoredCode] {
    try db.all(
      "SELECT \(Self.columns) FROM one_time_codes WHERE identifier_hash = ? ORDER BY share",
      .blob(identifierHash), map: Self.map)
  }

  func remove(sentBefore time: Timestamp, limit: Int) throws(StorageError) {
    try db.execute(
      """
      DELETE FROM one_time_codes WHERE (identifier_hash, share) IN
        (SELECT identifier_hash, share FROM one_time_codes WHERE sent_at < ? ORDER BY sent_at LIMIT ?)
      """,
      .time(time), .integer(limit))
  }

  private static func map(_ row: SQLiteRow) -> StoredCode {
    StoredCode(
      code: OneTimeCode(identifierHash: row.blob(0), codeHash: row.blob(3), handleHash: row.blob(2)),
      share: row.text(1), expiry: row.timestamp(4), attemptsLeft: row.integer(5), elsewhereLeft: row.integer(6),
      sentAt: row.timestamp(7), windowBeganAt: row.timestamp(8), sends: row.integer(9))
  }

  func put(_ stored: StoredCode) throws(StorageError) {
    try db.execute(
      """
      INSERT OR REPLACE INTO one_time_codes (\(Self.columns))
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      .blob(stored.code.identifierHash), .text(stored.share), .blob(stored.code.handleHash),
      .blob(stored.code.codeHash), .time(stored.expiry), .integer(stored.attemptsLeft),
      .integer(stored.elsewhereLeft), .time(stored.sentAt), .time(stored.windowBeganAt), .integer(stored.sends)
    )
  }

  func spend(_ code: OneTimeCode, at now: Timestamp) throws(StorageError) -> Bool {
    // The row stays: it counts what was sent in this hour.
    try db.execute(
      """
      UPDATE one_time_codes SET attempts_left = 0, elsewhere_left = 0, code_hash = x''
      WHERE identifier_hash = ? AND handle_hash = ? AND code_hash = ? AND expires_at > ?
        AND attempts_left + elsewhere_left > 0
      """,
      .blob(code.identifierHash), .blob(code.handleHash), .blob(code.codeHash), .time(now)
    ) == 1
  }
}
