import LatchkeyModel
import Storage

/// Statements and mapping of the table `guide_progress`.
enum GuideRow {
  private static let columns = "guide_id, status, position, step_id, revision, updated_at"

  static func find(
    _ guide: GuideID, of subject: SubjectID, in db: SQLiteConnection
  ) throws(StorageError) -> StoredGuideProgress? {
    try db.first(
      "SELECT \(columns) FROM guide_progress WHERE sub = ? AND guide_id = ?", .id(subject), .text(guide.description),
      map: map)
  }

  static func all(of subject: SubjectID, in db: SQLiteConnection) throws(StorageError) -> [StoredGuideProgress] {
    try db.all("SELECT \(columns) FROM guide_progress WHERE sub = ?", .id(subject), map: map)
  }

  static func put(
    _ row: StoredGuideProgress, of subject: SubjectID, in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO guide_progress (sub, \(columns)) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (sub, guide_id) DO UPDATE SET status = excluded.status, position = excluded.position,
        step_id = excluded.step_id, revision = excluded.revision, updated_at = excluded.updated_at
      """,
      .id(subject), .text(row.guide.description), .integer(row.progress.status.rawValue),
      .integer(row.progress.position), .optional(row.progress.step?.description), .integer(row.progress.revision),
      .time(row.updatedAt)
    )
  }

  /// The guest's progress becomes the account's where it came further, and is the guest's no longer.
  static func merge(
    _ guest: SubjectID, into account: SubjectID, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    for row in try all(of: guest, in: db) {
      var merged =
        try find(row.guide, of: account, in: db)
        ?? StoredGuideProgress(guide: row.guide, progress: GuideProgress(), updatedAt: now)
      guard merged.progress.merge(row.progress) else { continue }
      merged.updatedAt = now
      try put(merged, of: account, in: db)
    }
    try db.execute("DELETE FROM guide_progress WHERE sub = ?", .id(guest))
  }

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
