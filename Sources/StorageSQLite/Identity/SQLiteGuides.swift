import LatchkeyModel
import Storage

/// The table `guide_progress`.
struct SQLiteGuides: GuideRows {
  let db: SQLiteConnection

  private static let columns = "guide_id, status, position, step_id, revision, updated_at"
  static let remove = "DELETE FROM guide_progress WHERE sub = ?"

  func find(_ guide: GuideID, of subject: SubjectID) throws(StorageError) -> StoredGuideProgress? {
    try db.first(
      "SELECT \(Self.columns) FROM guide_progress WHERE sub = ? AND guide_id = ?", .id(subject),
      .text(guide.description), map: Self.map)
  }

  func lock(_ guide: GuideID, of subject: SubjectID) throws(StorageError) -> StoredGuideProgress? {
    try find(guide, of: subject)
  }

  func all(of subject: SubjectID) throws(StorageError) -> [StoredGuideProgress] {
    try db.all(
      "SELECT \(Self.columns) FROM guide_progress WHERE sub = ? ORDER BY guide_id", .id(subject), map: Self.map)
  }

  func put(_ row: StoredGuideProgress, of subject: SubjectID) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO guide_progress (sub, \(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (sub, guide_id) DO UPDATE SET status = excluded.status, position = excluded.position,
        step_id = excluded.step_id, revision = excluded.revision, updated_at = excluded.updated_at
      """,
      .id(subject), .text(row.guide.description), .integer(row.progress.status.rawValue),
      .integer(row.progress.position), .optional(row.progress.step?.description), .integer(row.progress.revision),
      .time(row.updatedAt)
    )
  }

  func remove(of subject: SubjectID) throws(StorageError) { try db.execute(Self.remove, .id(subject)) }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> StoredGuideProgress {
    guard let status = GuideProgress.Status(rawValue: row.integer(1)) else {
      throw StorageError(.corrupt, operation: "read a guide's progress", detail: "unknown status")
    }
    return StoredGuideProgress(
      guide: try row.parsed(0),
      progress: GuideProgress(
        status: status,
        position: Int(row.integer(2)),
        step: row.optionalText(3).flatMap { GuideID($0) },
        revision: row.integer(4)
      ),
      updatedAt: row.timestamp(5)
    )
  }
}
