import LatchkeyModel
import Storage

/// The table `purges`.
struct PostgreSQLPurges: PurgeRows {
  let db: PostgreSQLConnection

  func lock(_ subject: SubjectID) async throws(StorageError) -> PendingPurge? {
    try await db.first("SELECT sub, attempts FROM purges WHERE sub = $1 FOR UPDATE", .id(subject), map: Self.map)
  }

  func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge] {
    try await db.all(Self.selectDue, .time(now), .integer(limit), map: Self.map)
  }

  private static let selectDue = """
    SELECT sub, attempts FROM purges WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT $2
    """

  func lockDue(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge] {
    try await db.all("\(Self.selectDue) FOR UPDATE SKIP LOCKED", .time(now), .integer(limit), map: Self.map)
  }

  func insert(_ subject: SubjectID, dueAt: Timestamp) async throws(StorageError) {
    try await db.execute(
      "INSERT INTO purges (sub, attempts, next_attempt_at) VALUES ($1, 0, $2)", .id(subject), .time(dueAt))
  }

  func change(_ subject: SubjectID, attempts: Int64, dueAt: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE purges SET attempts = $1, next_attempt_at = $2 WHERE sub = $3",
      .integer(attempts), .time(dueAt), .id(subject))
  }

  func remove(_ subject: SubjectID) async throws(StorageError) {
    try await db.execute("DELETE FROM purges WHERE sub = $1", .id(subject))
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> PendingPurge {
    PendingPurge(subject: try row.id(0), attempts: row.integer(1))
  }
}
