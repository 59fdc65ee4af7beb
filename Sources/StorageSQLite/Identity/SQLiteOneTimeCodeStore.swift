import LatchkeyModel
import Storage

/// One-time codes in SQLite. A row is one requester's of an identifier; the one of everybody holds no code and counts what
/// strangers were sent.
package struct SQLiteOneTimeCodeStore: OneTimeCodeStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func replace(
    _ code: OneTimeCode, for account: SubjectID?, by requester: Requester, under policy: OneTimeCodePolicy,
    at now: Timestamp
  ) async throws(StorageError) -> OneTimeCodeIssue {
    try await database.write { db, _ throws(StorageError) in
      let share = try RequesterShare.find(requester, of: account, at: now, in: db)
      let own = try Sends.find(code.identifierHash, share.name, at: now, in: db)
      if let wait = own.wait(atMost: policy.sendsPerHour, apart: policy.resendAfter, at: now) { return .wait(wait) }
      if share.isStranger {
        let all = try Sends.find(code.identifierHash, RequesterShare.everybody, at: now, in: db)
        if let wait = all.wait(atMost: policy.strangersSendsPerHour, apart: .zero, at: now) { return .wait(wait) }
        try Self.keep(nil, code.identifierHash, RequesterShare.everybody, all, under: policy, at: now, in: db)
      }
      try Self.keep(code, code.identifierHash, share.name, own, under: policy, at: now, in: db)
      // Whoever's hour is over starts afresh, so nothing is lost with these.
      _ = try db.execute(
        """
        DELETE FROM one_time_codes WHERE (identifier_hash, share) IN
          (SELECT identifier_hash, share FROM one_time_codes WHERE sent_at < ? ORDER BY sent_at LIMIT 4)
        """,
        .time(now - .seconds(7200)))
      return .replaced
    }
  }

  package func withdraw(
    _ code: OneTimeCode, under policy: OneTimeCodePolicy, at now: Timestamp
  ) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      let share = try db.first(
        """
        UPDATE one_time_codes SET attempts_left = 0, elsewhere_left = 0, code_hash = x'', sends = max(sends - 1, 0),
          sent_at = min(sent_at, ?)
        WHERE identifier_hash = ? AND handle_hash = ? AND code_hash = ?
        RETURNING share
        """,
        .time(now - policy.resendAfter), .blob(code.identifierHash), .blob(code.handleHash), .blob(code.codeHash)
      ) { $0.text(0) }
      guard let share, share.hasPrefix("net ") else { return }
      _ = try db.execute(
        "UPDATE one_time_codes SET sends = max(sends - 1, 0) WHERE identifier_hash = ? AND share = ?",
        .blob(code.identifierHash), .text(RequesterShare.everybody))
    }
  }

  package func present(
    _ code: PresentedOneTimeCode, at now: Timestamp
  ) async throws(StorageError) -> OneTimeCodeCheck {
    try await database.write { db, _ throws(StorageError) in
      let live = try Self.live(code.identifierHash, at: now, in: db)
      let share = try RequesterShare.find(code.requester, of: code.account, at: now, in: db).name
      let own = live.first { kept in
        code.handleHash.map { $0 == kept.handleHash } ?? (kept.share == share)
      }
      if let own {
        guard own.attemptsLeft > 0 else { return .void }
        if own.holds(code) { return .holds(own.code(of: code.identifierHash)) }
        try db.execute(
          "UPDATE one_time_codes SET attempts_left = attempts_left - 1 WHERE identifier_hash = ? AND share = ?",
          .blob(code.identifierHash), .text(own.share))
        return .wrong(attemptsLeft: own.attemptsLeft - 1)
      }
      // Who says no handle may have come to another network since. Wrong tries from there are counted apart, so that
      // whoever asked for a code keeps theirs.
      let others = live.filter { $0.elsewhereLeft > 0 }
      guard code.handleHash == nil, let left = others.map(\.elsewhereLeft).max() else { return .void }
      if let match = others.first(where: { $0.holds(code) }) { return .holds(match.code(of: code.identifierHash)) }
      try db.execute(
        "UPDATE one_time_codes SET elsewhere_left = max(elsewhere_left - 1, 0) WHERE identifier_hash = ?",
        .blob(code.identifierHash))
      return .wrong(attemptsLeft: left - 1)
    }
  }

  // MARK: Rows

  private struct Kept {
    let share: String
    let handleHash: [UInt8]
    let codeHash: [UInt8]
    let attemptsLeft: Int64
    let elsewhereLeft: Int64

    /// Both are keyed hashes: where they differ tells nothing about the code.
    func holds(_ presented: PresentedOneTimeCode) -> Bool {
      RedactedSecret(codeHash) == RedactedSecret(presented.codeHash)
    }

    func code(of identifierHash: [UInt8]) -> OneTimeCode {
      OneTimeCode(identifierHash: identifierHash, codeHash: codeHash, handleHash: handleHash)
    }
  }

  private static func live(
    _ identifierHash: [UInt8], at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> [Kept] {
    try db.all(
      """
      SELECT share, handle_hash, code_hash, attempts_left, elsewhere_left FROM one_time_codes
      WHERE identifier_hash = ? AND expires_at > ? AND attempts_left + elsewhere_left > 0
      """,
      .blob(identifierHash), .time(now)
    ) { row in
      Kept(
        share: row.text(0), handleHash: row.blob(1), codeHash: row.blob(2), attemptsLeft: row.integer(3),
        elsewhereLeft: row.integer(4))
    }
  }

  /// What was sent within an hour.
  private struct Sends {
    var count: Int64
    var windowBeganAt: Timestamp
    var last: Timestamp?

    static func find(
      _ identifierHash: [UInt8], _ share: String, at now: Timestamp, in db: SQLiteConnection
    ) throws(StorageError) -> Sends {
      let found = try db.first(
        "SELECT sends, window_began_at, sent_at FROM one_time_codes WHERE identifier_hash = ? AND share = ?",
        .blob(identifierHash), .text(share)
      ) { row in Sends(count: row.integer(0), windowBeganAt: row.timestamp(1), last: row.timestamp(2)) }
      guard let found, now - found.windowBeganAt < .seconds(3600), now >= found.windowBeganAt else {
        return Sends(count: 0, windowBeganAt: now, last: nil)
      }
      return found
    }

    func wait(atMost most: Int64, apart distance: Duration, at now: Timestamp) -> Duration? {
      if let last, now >= last, now - last < distance { return distance - (now - last) }
      return count < most ? nil : .seconds(3600) - (now - windowBeganAt)
    }
  }

  private static func keep(
    _ code: OneTimeCode?, _ identifierHash: [UInt8], _ share: String, _ sends: Sends, under policy: OneTimeCodePolicy,
    at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    try db.codes.put(
      StoredCode(
        code: code ?? OneTimeCode(identifierHash: identifierHash, codeHash: [], handleHash: []), share: share,
        expiry: now + policy.lifetime, attemptsLeft: code == nil ? 0 : policy.attempts,
        elsewhereLeft: code == nil ? 0 : policy.attemptsFromElsewhere, sentAt: now,
        windowBeganAt: sends.windowBeganAt, sends: sends.count + 1))
  }
}
