import LatchkeyModel
import Storage

/// The table `sign_in_sources`.
struct PostgreSQLSources: SignInSourceRows {
  let db: PostgreSQLConnection

  func find(_ source: String, of account: SubjectID) async throws(StorageError) -> Timestamp? {
    try await db.first(
      "SELECT last_at FROM sign_in_sources WHERE sub = $1 AND source = $2", .id(account), .text(source)
    ) { $0.timestamp(0) }
  }

  func put(_ source: String, of account: SubjectID, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO sign_in_sources (sub, source, last_at) VALUES ($1, $2, $3)
      ON CONFLICT (sub, source) DO UPDATE SET last_at = excluded.last_at
      """,
      .id(account), .text(source), .time(now))
  }

  static let removeOldest = """
    DELETE FROM sign_in_sources WHERE sub = $1 AND source NOT IN
      (SELECT source FROM sign_in_sources WHERE sub = $1 ORDER BY last_at DESC, source LIMIT $2)
    """

  func remove(of account: SubjectID, allBut count: Int) async throws(StorageError) {
    try await db.execute(Self.removeOldest, .id(account), .integer(count))
  }
}
