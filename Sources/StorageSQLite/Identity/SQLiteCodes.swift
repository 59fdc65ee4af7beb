import LatchkeyModel
import Storage

/// The table `one_time_codes`.
struct SQLiteCodes: OneTimeCodeRows {
  let db: SQLiteConnection

  func put(_ stored: StoredCode) throws(StorageError) {
    try db.execute(
      """
      INSERT OR REPLACE INTO one_time_codes (identifier_hash, share, handle_hash, code_hash, expires_at, attempts_left,
        elsewhere_left, sent_at, window_began_at, sends)
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
