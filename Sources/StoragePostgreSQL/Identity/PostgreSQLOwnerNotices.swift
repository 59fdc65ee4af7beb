import LatchkeyModel
import Storage

/// The table `notices`.
struct PostgreSQLOwnerNotices: NoticeRows {
  let db: PostgreSQLConnection

  /// Those that this release can read. What a newer one wrote holds up nobody, and goes when it is too old.
  private static let known = AccountNotice.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")

  func lockDue(on channel: NoticeChannel, at now: Timestamp, limit: Int) async throws(StorageError) -> [OwnerNotice] {
    try await db.all(
      """
      SELECT key, notice, recipient, locale, at, attempts FROM notices
      WHERE due_at <= $1 AND notice IN (\(Self.known)) AND \(Self.recipients(of: channel)) AND NOT EXISTS (
        SELECT 1 FROM notices AS earlier
        WHERE earlier.recipient = notices.recipient AND earlier.notice IN (\(Self.known))
          AND (earlier.at, earlier.key) < (notices.at, notices.key))
      ORDER BY due_at, key LIMIT $2 FOR UPDATE OF notices SKIP LOCKED
      """,
      .time(now), .integer(limit), map: Self.map
    ).compactMap { $0 }
  }

  /// Every e-mail address has the sign, and no phone number.
  private static func recipients(of channel: NoticeChannel) -> String {
    channel == .mail ? "recipient LIKE '%@%'" : "recipient NOT LIKE '%@%'"
  }

  func insert(_ notice: OwnerNotice, dueAt: Timestamp) async throws(StorageError) {
    try await db.execute(
      "INSERT INTO notices (key, notice, recipient, locale, at, attempts, due_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
      .text(notice.key), .text(notice.notice.rawValue), .text(notice.recipient.canonical),
      .optional(notice.locale?.description), .time(notice.at), .integer(notice.attempts), .time(dueAt))
  }

  func change(_ key: String, attempts: Int64, dueAt: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE notices SET attempts = $1, due_at = $2 WHERE key = $3", .integer(attempts), .time(dueAt), .text(key))
  }

  func remove(_ key: String) async throws(StorageError) {
    try await db.execute("DELETE FROM notices WHERE key = $1", .text(key))
  }

  func remove(to recipient: AccountIdentifier, allBut count: Int) async throws(StorageError) -> Int {
    try await db.change(
      """
      DELETE FROM notices WHERE recipient = $1 AND key NOT IN
        (SELECT key FROM notices WHERE recipient = $1 ORDER BY at DESC, key DESC LIMIT $2)
      """,
      .text(recipient.canonical), .integer(count))
  }

  func remove(before time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(
      """
      WITH old AS MATERIALIZED (
        SELECT key FROM notices WHERE at < $1 ORDER BY at, key LIMIT $2 FOR UPDATE SKIP LOCKED)
      DELETE FROM notices USING old WHERE notices.key = old.key
      """,
      .time(time), .integer(limit))
  }

  /// Nil for an address that no release would write.
  private static func map(_ row: PostgreSQLRow) -> OwnerNotice? {
    guard let notice = AccountNotice(rawValue: row.text(1)), let recipient = AccountIdentifier(row.text(2)) else {
      return nil
    }
    return OwnerNotice(
      key: row.text(0), notice, to: recipient, locale: row.optionalText(3).flatMap { LanguageTag($0) },
      at: row.timestamp(4), attempts: row.integer(5))
  }
}
