import LatchkeyModel
import Storage

/// The table `one_time_codes`.
struct PostgreSQLCodes: OneTimeCodeRows {
  let db: PostgreSQLConnection

  private static let columns = """
    identifier_hash, share, handle_hash, code_hash, expires_at, attempts_left, elsewhere_left, sent_at,
    window_began_at, sends
    """

  func lock(_ identifierHash: [UInt8], _ share: String) async throws(StorageError) -> StoredCode? {
    try await lockIdentifier(identifierHash)
    return try await db.first(
      "SELECT \(Self.columns) FROM one_time_codes WHERE identifier_hash = $1 AND share = $2 FOR UPDATE",
      .bytes(identifierHash), .text(share), map: Self.map)
  }

  func lockAll(of identifierHash: [UInt8]) async throws(StorageError) -> [StoredCode] {
    try await lockIdentifier(identifierHash)
    return try await db.all(
      "SELECT \(Self.columns) FROM one_time_codes WHERE identifier_hash = $1 ORDER BY share FOR UPDATE",
      .bytes(identifierHash), map: Self.map)
  }

  /// All shares of an identifier by one lock: who counts looks at several of them.
  private func lockIdentifier(_ hash: [UInt8]) async throws(StorageError) {
    try await db.lock("one_time_codes", .bytes(hash))
  }

  func remove(sentBefore time: Timestamp, limit: Int) async throws(StorageError) {
    try await db.execute(
      """
      WITH old AS MATERIALIZED (
        SELECT identifier_hash, share FROM one_time_codes WHERE sent_at < $1
        ORDER BY sent_at LIMIT $2 FOR UPDATE SKIP LOCKED)
      DELETE FROM one_time_codes USING old
      WHERE one_time_codes.identifier_hash = old.identifier_hash AND one_time_codes.share = old.share
      """,
      .time(time), .integer(limit))
  }

  private static func map(_ row: PostgreSQLRow) -> StoredCode {
    StoredCode(
      code: OneTimeCode(identifierHash: row.bytes(0), codeHash: row.bytes(3), handleHash: row.bytes(2)),
      share: row.text(1), expiry: row.timestamp(4), attemptsLeft: row.integer(5), elsewhereLeft: row.integer(6),
      sentAt: row.timestamp(7), windowBeganAt: row.timestamp(8), sends: row.integer(9))
  }

  func put(_ stored: StoredCode) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO one_time_codes (\(Self.columns))
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
      ON CONFLICT (identifier_hash, share) DO UPDATE SET handle_hash = excluded.handle_hash,
        code_hash = excluded.code_hash, expires_at = excluded.expires_at, attempts_left = excluded.attempts_left,
        elsewhere_left = excluded.elsewhere_left, sent_at = excluded.sent_at,
        window_began_at = excluded.window_began_at, sends = excluded.sends
      """,
      .bytes(stored.code.identifierHash), .text(stored.share), .bytes(stored.code.handleHash),
      .bytes(stored.code.codeHash), .time(stored.expiry), .integer(stored.attemptsLeft),
      .integer(stored.elsewhereLeft), .time(stored.sentAt), .time(stored.windowBeganAt), .integer(stored.sends)
    )
  }

  func spend(_ code: OneTimeCode, at now: Timestamp) async throws(StorageError) -> Bool {
    // The row stays: it counts what was sent in this hour.
    try await db.change(
      """
      UPDATE one_time_codes SET attempts_left = 0, elsewhere_left = 0, code_hash = ''
      WHERE identifier_hash = $1 AND handle_hash = $2 AND code_hash = $3 AND expires_at > $4
        AND attempts_left + elsewhere_left > 0
      """,
      .bytes(code.identifierHash), .bytes(code.handleHash), .bytes(code.codeHash), .time(now)
    ) == 1
  }
}
