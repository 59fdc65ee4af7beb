import LatchkeyModel
import Storage

/// The table `merges`.
struct PostgreSQLMerges: MergeRows {
  let db: PostgreSQLConnection

  private static let columns = """
    merge_id, guest_sub, guest_sid, target_sub, target_sid, first_login, attempts, plan_id, plan_digest, migration_id,
    created_at, state, last_error
    """
  private static let selectOpen = "SELECT \(columns) FROM merges WHERE guest_sub = $1 AND state IN (0, 1)"
  private static let selectOne = "SELECT \(columns) FROM merges WHERE merge_id = $1"
  private static let selectDue = """
    SELECT \(columns) FROM merges WHERE state = 0 AND next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT $2
    """

  func open(of guest: SubjectID) async throws(StorageError) -> PendingMerge? {
    try await db.first(Self.selectOpen, .id(guest), map: Self.map)
  }

  func find(_ id: MergeID) async throws(StorageError) -> PendingMerge? {
    try await db.first(Self.selectOne, .id(id), map: Self.map)
  }

  func lock(_ id: MergeID) async throws(StorageError) -> PendingMerge? {
    try await db.first("\(Self.selectOne) FOR UPDATE", .id(id), map: Self.map)
  }

  func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge] {
    try await db.all(Self.selectDue, .time(now), .integer(limit), map: Self.map)
  }

  func lockDue(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge] {
    try await db.all("\(Self.selectDue) FOR UPDATE SKIP LOCKED", .time(now), .integer(limit), map: Self.map)
  }

  func insert(_ merge: PendingMerge, dueAt: Timestamp, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO merges (merge_id, guest_sub, guest_sid, target_sub, target_sid, first_login, state, attempts,
        next_attempt_at, created_at, changed_at)
      VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7, $8, $9)
      """,
      .id(merge.id), .id(merge.guest), .id(merge.guestSession), .id(merge.target), .id(merge.targetSession),
      .boolean(merge.isFirstLoginOnDevice), .time(dueAt), .time(now), .time(now)
    )
  }

  func changeSessions(of merge: PendingMerge, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE merges SET target_sid = $1, guest_sid = $2, changed_at = $3 WHERE merge_id = $4",
      .id(merge.targetSession), .id(merge.guestSession), .time(now), .id(merge.id))
  }

  func change(_ id: MergeID, plan: PendingMerge.Plan?) async throws(StorageError) {
    try await db.execute(
      "UPDATE merges SET plan_id = $1, plan_digest = $2 WHERE merge_id = $3",
      .optional(plan?.id), .optional(plan?.digest), .id(id))
  }

  func change(_ merge: PendingMerge, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE merges SET state = $1, migration_id = $2, last_error = $3, changed_at = $4 WHERE merge_id = $5",
      .integer(merge.state.rawValue), .optional(merge.migration), .optional(merge.lastError), .time(now), .id(merge.id))
  }

  func change(_ merge: PendingMerge, dueAt: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE merges SET attempts = $1, last_error = $2, next_attempt_at = $3 WHERE merge_id = $4",
      .integer(merge.attempts), .optional(merge.lastError), .time(dueAt), .id(merge.id))
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> PendingMerge {
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
    WITH old AS MATERIALIZED (
      SELECT merge_id FROM merges WHERE state IN (2, 3) AND changed_at < $1
      ORDER BY changed_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM merges USING old WHERE merges.merge_id = old.merge_id
    """

  func remove(overBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.removeOver, .time(time), .integer(limit))
  }
}

/// The tables `merged_guests` and `recalled_merges`.
struct PostgreSQLMergedGuests: MergedGuestRows {
  let db: PostgreSQLConnection

  func devices(of guest: SubjectID) async throws(StorageError) -> [String] {
    try await db.all("SELECT device_key FROM merged_guests WHERE guest_sub = $1 ORDER BY device_key", .id(guest)) {
      $0.text(0)
    }
  }

  func put(_ guest: SubjectID, onDevice keyThumbprint: String, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO merged_guests (guest_sub, device_key, merged_at) VALUES ($1, $2, $3)
      ON CONFLICT (guest_sub, device_key) DO UPDATE SET merged_at = excluded.merged_at
      """,
      .id(guest), .text(keyThumbprint), .time(now))
  }

  func remove(of guest: SubjectID) async throws(StorageError) {
    try await db.execute("DELETE FROM merged_guests WHERE guest_sub = $1", .id(guest))
  }

  static let removeOld = """
    WITH old AS MATERIALIZED (
      SELECT guest_sub, device_key FROM merged_guests WHERE merged_at < $1
      ORDER BY merged_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM merged_guests USING old
    WHERE merged_guests.guest_sub = old.guest_sub AND merged_guests.device_key = old.device_key
    """

  func remove(before time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.removeOld, .time(time), .integer(limit))
  }

  func isRecalled(_ migration: String, of guest: SubjectID) async throws(StorageError) -> Bool {
    try await db.first(
      "SELECT 1 FROM recalled_merges WHERE guest_sub = $1 AND migration_id = $2", .id(guest), .text(migration)
    ) { _ in true } ?? false
  }

  func recall(_ migration: String, of guest: SubjectID, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO recalled_merges (guest_sub, migration_id, recalled_at) VALUES ($1, $2, $3)
      ON CONFLICT (guest_sub, migration_id) DO NOTHING
      """,
      .id(guest), .text(migration), .time(now))
  }

  func removeRecalls(of guest: SubjectID) async throws(StorageError) {
    try await db.execute("DELETE FROM recalled_merges WHERE guest_sub = $1", .id(guest))
  }
}
