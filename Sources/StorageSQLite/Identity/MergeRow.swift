import LatchkeyModel
import Storage

/// Statements and mapping of the table `merges`.
enum MergeRow {
  private static let columns = """
    merge_id, guest_sub, guest_sid, target_sub, target_sid, first_login, attempts, plan_id, plan_digest, migration_id,
    created_at
    """
  private static let selectOpen = "SELECT \(columns) FROM merges WHERE guest_sub = ? AND state IN (0, 1)"
  private static let selectOne = "SELECT \(columns) FROM merges WHERE merge_id = ?"
  private static let selectDue = """
    SELECT \(columns) FROM merges WHERE state = 0 AND next_attempt_at <= ? ORDER BY next_attempt_at LIMIT ?
    """

  static func openMerge(of guest: SubjectID, in db: SQLiteConnection) throws(StorageError) -> PendingMerge? {
    try db.first(selectOpen, .id(guest), map: map)
  }

  static func find(_ id: MergeID, in db: SQLiteConnection) throws(StorageError) -> PendingMerge? {
    try db.first(selectOne, .id(id), map: map)
  }

  static func due(at now: Timestamp, limit: Int, in db: SQLiteConnection) throws(StorageError) -> [PendingMerge] {
    try db.all(selectDue, .time(now), .integer(limit), map: map)
  }

  /// Writes the wish down. A wish that is open already is the same wish: the caller has made sure that it is for the
  /// same account.
  static func want(
    _ merge: PendingMerge, at now: Timestamp, dueAt: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> PendingMerge {
    if var open = try openMerge(of: merge.guest, in: db) {
      // The newest sign-in's session is the one that lives.
      try db.execute(
        "UPDATE merges SET target_sid = ?, guest_sid = ?, changed_at = ? WHERE merge_id = ?",
        .id(merge.targetSession), .id(merge.guestSession), .time(now), .id(open.id)
      )
      open.targetSession = merge.targetSession
      open.guestSession = merge.guestSession
      return open
    }
    try db.execute(
      """
      INSERT INTO merges (merge_id, guest_sub, guest_sid, target_sub, target_sid, first_login, state, attempts,
        next_attempt_at, created_at, changed_at)
      VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?)
      """,
      .id(merge.id), .id(merge.guest), .id(merge.guestSession), .id(merge.target), .id(merge.targetSession),
      .boolean(merge.isFirstLoginOnDevice), .time(dueAt), .time(now), .time(now)
    )
    var merge = merge
    merge.createdAt = now
    return merge
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
