import LatchkeyModel
import Storage

/// The table `sign_in_sources`.
struct SQLiteSources: SignInSourceRows {
  let db: SQLiteConnection

  func find(_ source: String, of account: SubjectID) throws(StorageError) -> Timestamp? {
    try db.first(
      "SELECT last_at FROM sign_in_sources WHERE sub = ? AND source = ?", .id(account), .text(source)
    ) { $0.timestamp(0) }
  }

  func put(_ source: String, of account: SubjectID, at now: Timestamp) throws(StorageError) {
    try db.execute(
      "INSERT OR REPLACE INTO sign_in_sources (sub, source, last_at) VALUES (?, ?, ?)",
      .id(account), .text(source), .time(now))
  }

  static let removeOldest = """
    DELETE FROM sign_in_sources WHERE sub = ?1 AND source NOT IN
      (SELECT source FROM sign_in_sources WHERE sub = ?1 ORDER BY last_at DESC, source LIMIT ?2)
    """

  func remove(of account: SubjectID, allBut count: Int) throws(StorageError) {
    try db.execute(Self.removeOldest, .id(account), .integer(count))
  }
}
