import LatchkeyModel
import Storage

/// The table `guide_progress`.
struct PostgreSQLGuides: GuideRows {
  let db: PostgreSQLConnection

  private static let columns = "guide_id, status, position, step_id, revision, updated_at"
  private static let selectOne = "SELECT \(columns) FROM guide_progress WHERE sub = $1 AND guide_id = $2"
  static let remove = "DELETE FROM guide_progress WHERE sub = $1"

  func find(_ guide: GuideID, of subject: SubjectID) async throws(StorageError) -> StoredGuideProgress? {
    try await db.first(Self.selectOne, .id(subject), .text(guide.description), map: Self.map)
  }

  func lock(_ guide: GuideID, of subject: SubjectID) async throws(StorageError) -> StoredGuideProgress? {
    try await db.lock("guide_progress", .id(subject), .text(guide.description))
    return try await db.first(
      "\(Self.selectOne) FOR UPDATE", .id(subject), .text(guide.description), map: Self.map)
  }

  func all(of subject: SubjectID) async throws(StorageError) -> [StoredGuideProgress] {
    try await db.all(
      "SELECT \(Self.columns) FROM guide_progress WHERE sub = $1 ORDER BY guide_id", .id(subject), map: Self.map)
  }

  func put(_ row: StoredGuideProgress, of subject: SubjectID) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO guide_progress (sub, \(Self.columns)) VALUES ($1, $2, $3, $4, $5, $6, $7)
      ON CONFLICT (sub, guide_id) DO UPDATE SET status = excluded.status, position = excluded.position,
        step_id = excluded.step_id, revision = excluded.revision, updated_at = excluded.updated_at
      """,
      .id(subject), .text(row.guide.description), .integer(row.progress.status.rawValue),
      .integer(row.progress.position), .optional(row.progress.step?.description), .integer(row.progress.revision),
      .time(row.updatedAt)
    )
  }

  func remove(of subject: SubjectID) async throws(StorageError) { try await db.execute(Self.remove, .id(subject)) }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> StoredGuideProgress {
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
