import LatchkeyModel
import Storage

/// The table `merges`.
struct SQLiteMerges: MergeRows {
  let db: SQLiteConnection

  private static let columns = """
    merge_id, guest_sub, guest_sid, target_sub, target_sid, first_login, attempts, plan_id, plan_digest, migration_id,
    created_at, state, last_error
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

  func lock(_ id: MergeID) throws(StorageError) -> PendingMerge? { try find(id) }

  func due(at now: Timestamp, limit: Int) throws(StorageError) -> [PendingMerge] {
    try db.all(Self.selectDue, .time(now), .integer(limit), map: Self.map)
  }

  func lockDue(at now: Timestamp, limit: Int) throws(StorageError) -> [PendingMerge] { try due(at: now, limit: limit) }

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

  func change(_ id: MergeID, plan: PendingMerge.Plan?) throws(StorageError) {
    try db.execute(
      "UPDATE merges SET plan_id = ?, plan_digest = ? WHERE merge_id = ?",
      .optional(plan?.id), .optional(plan?.digest), .id(id))
  }

  func change(_ merge: PendingMerge, at now: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE merges SET state = ?, migration_id = ?, last_error = ?, changed_at = ? WHERE merge_id = ?",
      .integer(merge.state.rawValue), .optional(merge.migration), .optional(merge.lastError), .time(now), .id(merge.id))
  }

  func change(_ merge: PendingMerge, dueAt: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE merges SET attempts = ?, last_error = ?, next_attempt_at = ? WHERE merge_id = ?",
      .integer(merge.attempts), .optional(merge.lastError), .time(dueAt), .id(merge.id))
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> PendingMerge {
    guard let state = PendingMerge.State(rawValue: row.integer(11)) else {
      throw StorageError(.corrupt, operation: "read a merge", detail: "unknown state")
    }
    var plan: PendingMerge.Plan?
    if let id = row.optionalText(7) { plan = PendingMerge.Plan(id: id, digest: row.text(8)) }
    var merge = PendingMerge(
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
    (merge.state, merge.lastError) = (state, row.optionalText(12))
    return merge
  }

  static let removeOver = """
    DELETE FROM merges WHERE merge_id IN
      (SELECT merge_id FROM merges WHERE state IN (2, 3) AND changed_at < ? ORDER BY changed_at LIMIT ?)
    """

  func remove(overBefore time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.removeOver, .time(time), .integer(limit))
  }
}

/// The tables `merged_guests` and `recalled_merges`.
struct SQLiteMergedGuests: MergedGuestRows {
  let db: SQLiteConnection

  func devices(of guest: SubjectID) throws(StorageError) -> [String] {
    try db.all("SELECT device_key FROM merged_guests WHERE guest_sub = ? ORDER BY device_key", .id(guest)) {
      $0.text(0)
    }
  }

  func put(_ guest: SubjectID, onDevice keyThumbprint: String, at now: Timestamp) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO merged_guests (guest_sub, device_key, merged_at) VALUES (?, ?, ?)
      ON CONFLICT (guest_sub, device_key) DO UPDATE SET merged_at = excluded.merged_at
      """,
      .id(guest), .text(keyThumbprint), .time(now))
  }

  func remove(of guest: SubjectID) throws(StorageError) {
    try db.execute("DELETE FROM merged_guests WHERE guest_sub = ?", .id(guest))
  }

  static let removeOld = """
    DELETE FROM merged_guests WHERE (guest_sub, device_key) IN
      (SELECT guest_sub, device_key FROM merged_guests WHERE merged_at < ? ORDER BY merged_at LIMIT ?)
    """

  func remove(before time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.removeOld, .time(time), .integer(limit))
  }

  static let selectRecalled = "SELECT 1 FROM recalled_merges WHERE guest_sub = ? AND migration_id = ?"

  func isRecalled(_ migration: String, of guest: SubjectID) throws(StorageError) -> Bool {
    try db.first(Self.selectRecalled, .id(guest), .text(migration)) { _ in true } ?? false
  }

  func recall(_ migration: String, of guest: SubjectID, at now: Timestamp) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO recalled_merges (guest_sub, migration_id, recalled_at) VALUES (?, ?, ?)
      ON CONFLICT (guest_sub, migration_id) DO NOTHING
      """,
      .id(guest), .text(migration), .time(now))
  }

  static let removeRecalls = "DELETE FROM recalled_merges WHERE guest_sub = ?"

  func removeRecalls(of guest: SubjectID) throws(StorageError) {
    try db.execute(Self.removeRecalls, .id(guest))
  }
}
