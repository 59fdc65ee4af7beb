import LatchkeyModel
import Storage

/// One-time codes in SQLite.
package struct SQLiteOneTimeCodeStore: OneTimeCodeStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func replace(
    _ code: OneTimeCode, under policy: OneTimeCodePolicy, at now: Timestamp
  ) async throws(StorageError) -> OneTimeCodeIssue {
    try await database.write { db, _ throws(StorageError) in
      let last = try db.first(
        "SELECT sent_at, window_began_at, sends FROM one_time_codes WHERE identifier_hash = ?",
        .blob(code.identifierHash)
      ) { row in (sent: row.timestamp(0), window: row.timestamp(1), sends: row.integer(2)) }
      var (window, sends) = (now, Int64(1))
      if let last, now - last.window < .seconds(3600), now >= last.window {
        if now >= last.sent, now - last.sent < policy.resendAfter {
          return .wait(policy.resendAfter - (now - last.sent))
        }
        guard last.sends < policy.sendsPerHour else { return .wait(.seconds(3600) - (now - last.window)) }
        (window, sends) = (last.window, last.sends + 1)
      }
      try db.execute(
        """
        INSERT INTO one_time_codes
          (identifier_hash, code_hash, expires_at, attempts_left, sent_at, window_began_at, sends)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (identifier_hash) DO UPDATE SET code_hash = excluded.code_hash, expires_at = excluded.expires_at,
          attempts_left = excluded.attempts_left, sent_at = excluded.sent_at,
          window_began_at = excluded.window_began_at, sends = excluded.sends
        """,
        .blob(code.identifierHash), .blob(code.codeHash), .time(now + policy.lifetime), .integer(policy.attempts),
        .time(now), .time(window), .integer(sends)
      )
      // Whoever's hour is over starts afresh, so nothing is lost with these.
      _ = try db.execute(
        """
        DELETE FROM one_time_codes WHERE identifier_hash IN
          (SELECT identifier_hash FROM one_time_codes WHERE sent_at < ? ORDER BY sent_at LIMIT 4)
        """,
        .time(now - .seconds(7200)))
      return .replaced
    }
  }

  package func withdraw(
    _ code: OneTimeCode, under policy: OneTimeCodePolicy, at now: Timestamp
  ) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      _ = try db.execute(
        """
        UPDATE one_time_codes SET attempts_left = 0, code_hash = x'', sends = max(sends - 1, 0),
          sent_at = min(sent_at, ?)
        WHERE identifier_hash = ? AND code_hash = ?
        """,
        .time(now - policy.resendAfter), .blob(code.identifierHash), .blob(code.codeHash)
      )
    }
  }

  package func present(_ code: OneTimeCode, at now: Timestamp) async throws(StorageError) -> OneTimeCodeCheck {
    try await database.write { db, _ throws(StorageError) in
      guard
        let kept = try db.first(
          """
          SELECT code_hash, attempts_left FROM one_time_codes
          WHERE identifier_hash = ? AND expires_at > ? AND attempts_left > 0
          """,
          .blob(code.identifierHash), .time(now), map: { row in (hash: row.blob(0), attemptsLeft: row.integer(1)) })
      else { return .void }
      // Both are keyed hashes: where they differ tells nothing about the code.
      if RedactedSecret(kept.hash) == RedactedSecret(code.codeHash) { return .holds }
      try db.execute(
        "UPDATE one_time_codes SET attempts_left = attempts_left - 1 WHERE identifier_hash = ?",
        .blob(code.identifierHash))
      return .wrong(attemptsLeft: kept.attemptsLeft - 1)
    }
  }

  /// Spends the code; false when that happened already or it is not the one on record.
  static func spend(_ code: OneTimeCode, at now: Timestamp, in db: SQLiteConnection) throws(StorageError) -> Bool {
    // The row stays: it counts what was sent in this hour.
    try db.execute(
      """
      UPDATE one_time_codes SET attempts_left = 0, code_hash = x''
      WHERE identifier_hash = ? AND code_hash = ? AND expires_at > ? AND attempts_left > 0
      """,
      .blob(code.identifierHash), .blob(code.codeHash), .time(now)
    ) == 1
  }
}
