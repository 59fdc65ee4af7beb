import LatchkeyModel
import Storage

/// The table `purges`.
struct SQLitePurges: PurgeRows {
  let db: SQLiteConnection

  func lock(_ subject: SubjectID) throws(StorageError) -> PendingPurge? {
    try db.first("SELECT sub, attempts FROM purges WHERE sub = ?", .id(subject), map: Self.map)
  }

  func due(at now: Timestamp, limit: Int) throws(StorageError) -> [PendingPurge] {
    try db.all(
      "SELECT sub, attempts FROM purges WHERE next_attempt_at <= ? ORDER BY next_attempt_at LIMIT ?",
      .time(now), .integer(limit), map: Self.map)
  }

  func lockDue(at now: Timestamp, limit: Int) throws(StorageError) -> [PendingPurge] { try due(at: now, limit: limit) }

  func insert(_ subject: SubjectID, dueAt: Timestamp) throws(StorageError) {
    try db.execute(
      "INSERT INTO purges (sub, attempts, next_attempt_at) VALUES (?, 0, ?)", .id(subject), .time(dueAt))
  }

  func change(_ subject: SubjectID, attempts: Int64, dueAt: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE purges SET attempts = ?, next_attempt_at = ? WHERE sub = ?",
      .integer(attempts), .time(dueAt), .id(subject))
  }

  func remove(_ subject: SubjectID) throws(StorageError) {
    try db.execute("DELETE FROM purges WHERE sub = ?", .id(subject))
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> PendingPurge {
    PendingPurge(subject: try row.id(0), attempts: row.integer(1))
  }
}
