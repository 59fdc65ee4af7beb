import LatchkeyModel
import Storage

/// The table `merges`.
struct SQLiteMerges: MergeRows {
  let db: SQLiteConnection

  private static let columns = """
    merge_id, guest_sub, guest_sid, target_sub, target_sid, first_login, attempts, plan_id, plan_digest, migration_id,
    created_at
    """
  private static let selectOpen = "SELECT \(columns) FROM merges WHERE guest_sub = ? AND state IN (0, 1)"
  private static let selectOne = "SELECT \(columns) FROM merges WHERE merge_id = ?"
  private static let selectDue = """
    SELECT \(columns) FROM merges WHERE state = 0 AND next_attempt_at <= ? ORDER BY next_attempt_at LIMIT ?
    """

  func open(of guest: SubjectID) throws(StorageError) -> PendingMerge? {
    try db.first(Self.selectOpen, .id(guest), map: Self.map)
  }

  func find(_ id: MergeID) throws(StorageError) -> PendingMerge? {
    try db.first(Self.selectOne, .id(id), map: Self.map)
  }

  func due(at now: Timestamp, limit: Int) throws(StorageError) -> [PendingMerge] {
    try db.all(Self.selectDue, .time(now), .integer(limit), map: Self.map)
  }

  func insert(_ merge: PendingMerge, dueAt: Timestamp, at now: Timestamp) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO merges (merge_id, guest_sub, guest_sid, target_sub, target_sid, first_login, state, attempts,
        next_attempt_at, created_at, changed_at)
      VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?)
      """,
      .id(merge.id), .id(merge.guest), .id(merge.guestSession), .id(merge.target), .id(merge.targetSession),
      .boolean(merge.isFirstLoginOnDevice), .time(dueAt), .time(now), .time(now)
    )
  }

  func changeSessions(of merge: PendingMerge, at now: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE merges SET target_sid = ?, guest_sid = ?, changed_at = ? WHERE merge_id = ?",
      .id(merge.targetSession), .id(merge.guestSession), .time(now), .id(merge.id))
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> PendingMerge {
    var plan: PendingMerge.Plan?
    if let id = row.optionalText(7) { plan = PendingMerge.Plan(id: id, digest: row.text(8)) }
    return PendingMerge(
      id: try row.id(0),
      guest: try row.id(1),
      guestSession: try row.id(2),
      target: try row.id(3),
      targetSession: try row.id(4),
      isFirstLoginOnDevice: row.boolean(5),
      attempts: row.integer(6),
      createdAt: row.timestamp(10),
      plan: plan,
      migration: row.optionalText(9)
    )
  }
}
