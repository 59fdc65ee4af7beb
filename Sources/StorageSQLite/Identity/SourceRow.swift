import LatchkeyModel
import Storage

/// Statements of the table `sign_in_sources`: the networks that a person signed in to an account from.
enum SourceRow {
  /// Home, work, a phone's and some more; the oldest goes.
  static let mostPerAccount = 16
  /// A network that was not signed in from for this long is as any other.
  static let lifetime: Duration = .seconds(90 * 86_400)
  /// The time is kept by the day, so that most sign-ins write nothing here.
  private static let grain: Duration = .seconds(86_400)

  static func isKnown(
    _ source: String, of account: SubjectID, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> Bool {
    try db.first(
      "SELECT 1 FROM sign_in_sources WHERE sub = ? AND source = ? AND last_at > ?",
      .id(account), .text(source), .time(now - lifetime)
    ) { _ in true } ?? false
  }

  static func note(
    _ source: String, of account: SubjectID, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    guard !source.isEmpty, try !isKnown(source, of: account, at: now + lifetime - grain, in: db) else { return }
    try db.execute(
      "INSERT OR REPLACE INTO sign_in_sources (sub, source, last_at) VALUES (?, ?, ?)",
      .id(account), .text(source), .time(now))
    _ = try db.execute(
      """
      DELETE FROM sign_in_sources WHERE sub = ?1 AND source NOT IN
        (SELECT source FROM sign_in_sources WHERE sub = ?1 ORDER BY last_at DESC, source LIMIT ?2)
      """,
      .id(account), .integer(Int64(mostPerAccount)))
  }
}
