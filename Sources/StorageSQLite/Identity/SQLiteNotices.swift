import LatchkeyModel
import Storage

/// The table `notices`.
struct SQLiteNotices: NoticeRows {
  let db: SQLiteConnection

  /// Those that this release can read. What a newer one wrote holds up nobody, and goes when it is too old.
  private static let known = AccountNotice.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")

  func lockDue(on channel: NoticeChannel, at now: Timestamp, limit: Int) throws(StorageError) -> [OwnerNotice] {
    try db.all(
      """
      SELECT key, notice, recipient, locale, at, attempts FROM notices
      WHERE due_at <= ? AND notice IN (\(Self.known)) AND \(Self.recipients(of: channel)) AND NOT EXISTS (
        SELECT 1 FROM notices AS earlier
        WHERE earlier.recipient = notices.recipient AND earlier.notice IN (\(Self.known))
          AND (earlier.at, earlier.key) < (notices.at, notices.key))
      ORDER BY due_at, key LIMIT ?
      """,
      .time(now), .integer(limit), map: Self.map
    ).compactMap { $0 }
  }

  /// Every e-mail address has the sign, and no phone number.
  private static func recipients(of channel: NoticeChannel) -> String {
    channel == .mail ? "recipient LIKE '%@%'" : "recipient NOT LIKE '%@%'"
  }

  func insert(_ notice: OwnerNotice, dueAt: Timestamp) throws(StorageError) {
    try db.execute(
      "INSERT INTO notices (key, notice, recipient, locale, at, attempts, due_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
      .text(notice.key), .text(notice.notice.rawValue), .text(notice.recipient.canonical),
      .optional(notice.locale?.description), .time(notice.at), .integer(notice.attempts), .time(dueAt))
  }

  func change(_ key: String, attempts: Int64, dueAt: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE notices SET attempts = ?, due_at = ? WHERE key = ?", .integer(attempts), .time(dueAt), .text(key))
  }

  func remove(_ key: String) throws(StorageError) { try db.execute("DELETE FROM notices WHERE key = ?", .text(key)) }

  func remove(to recipient: AccountIdentifier, allBut count: Int) throws(StorageError) -> Int {
    try db.execute(
      """
      DELETE FROM notices WHERE recipient = ?1 AND key NOT IN
        (SELECT key FROM notices WHERE recipient = ?1 ORDER BY at DESC, key DESC LIMIT ?2)
      """,
      .text(recipient.canonical), .integer(count))
  }

  func remove(before time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(
      "DELETE FROM notices WHERE key IN (SELECT key FROM notices WHERE at < ? ORDER BY at, key LIMIT ?)",
      .time(time), .integer(limit))
  }

  /// Nil for an address that no release would write.
  private static func map(_ row: SQLiteRow) -> OwnerNotice? {
    guard let notice = AccountNotice(rawValue: row.text(1)), let recipient = AccountIdentifier(row.text(2)) else {
      return nil
    }
    return OwnerNotice(
      key: row.text(0), notice, to: recipient, locale: row.optionalText(3).flatMap { LanguageTag($0) },
      at: row.timestamp(4), attempts: row.integer(5))
  }
}
