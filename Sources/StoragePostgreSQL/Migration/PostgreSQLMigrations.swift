import LatchkeyModel
import Storage

/// The table `migrations`.
struct PostgreSQLMigrations: MigrationRows {
  let db: PostgreSQLConnection

  private static let state = """
    id, guest, target, phase, cursor_collection, cursor_updated_at, cursor_key, done, total, failed_step, failure,
    created_at, finished_at, undo_until
    """
  private static let columns = """
    \(state), plan, idempotency_key, run_at, lease, lease_until, failures, epoch, is_forgetting, kept_bytes, relaid,
    hindrance
    """

  /// One that is in a phase which only a newer release knows is that release's to go on with.
  private static let known = "phase IN ('\(MigrationState.phases.joined(separator: "', '"))')"

  private static func migration(_ row: PostgreSQLRow) throws(StorageError) -> Migration {
    let state = MigrationState(
      phase: row.text(3), cursorCollection: row.optionalText(4), cursorUpdatedAt: row.optionalInteger(5),
      cursorKey: row.optionalText(6), failedStep: row.optionalText(9), failure: row.optionalText(10),
      finishedAt: row.optionalInteger(12))
    return Migration(
      id: try row.id(0), guest: try row.id(1), target: try row.id(2), createdAt: row.timestamp(11),
      state: try state.state, done: Int(row.integer(7)), total: Int(row.integer(8)),
      undoUntil: row.optionalTimestamp(13), undoRefusal: state.undoRefusal)
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> StoredMigration {
    var claim: StoredMigration.Claim?
    if let bytes = row.optionalBlob(17) {
      guard let holder = OpaqueIDValue(bytes: bytes, in: row.cell) else {
        throw StorageError(.corrupt, operation: "read a row", detail: "no valid lease in its column")
      }
      claim = StoredMigration.Claim(holder: holder, until: row.timestamp(18))
    }
    return StoredMigration(
      plan: try row.id(14), idempotencyKey: row.text(15), migration: try migration(row), runAt: row.timestamp(16),
      claim: claim, failures: Int(row.integer(19)), hindrance: row.optionalText(24), epoch: row.integer(20),
      isForgetting: row.boolean(21),
      keptBytes: Int(row.integer(22)), relaid: row.integer(23))
  }

  private static let selectOne = "SELECT \(columns) FROM migrations WHERE id = $1"
  private static let selectLocked = "\(selectOne) FOR UPDATE"

  func find(_ id: MigrationID) async throws(StorageError) -> StoredMigration? {
    try await db.first(Self.selectOne, .id(id), map: Self.map)
  }

  // An id is random, and made by who inserts the migration: nobody waits for one that is not there.
  func lock(_ id: MigrationID) async throws(StorageError) -> StoredMigration? {
    try await db.first(Self.selectLocked, .id(id), map: Self.map)
  }

  private static let selectNamed = "SELECT \(columns) FROM migrations WHERE id = ANY ($1::uuid[]) AND \(known)"

  func all(_ ids: [MigrationID]) async throws(StorageError) -> [StoredMigration] {
    try await db.all(Self.selectNamed, .uuids(ids.map(\.bytes)), map: Self.map)
  }

  private static let selectByPlan = "SELECT id FROM migrations WHERE plan = $1"
  private static let selectByKey = "SELECT id FROM migrations WHERE target = $1 AND idempotency_key = $2"

  func find(plan: PlanID) async throws(StorageError) -> MigrationID? {
    try await db.first(Self.selectByPlan, .id(plan)) { row throws(StorageError) in try row.id(0) }
  }

  func find(idempotencyKey: String, into target: SubjectID) async throws(StorageError) -> MigrationID? {
    try await db.first(Self.selectByKey, .id(target), .text(idempotencyKey)) { row throws(StorageError) in
      try row.id(0)
    }
  }

  private static func selectPage(_ place: String) -> String {
    "SELECT \(state) FROM migrations WHERE target = $1 \(place) ORDER BY created_at DESC, id DESC LIMIT $2"
  }
  private static let selectFirstPage = selectPage("")
  private static let selectNextPage = selectPage("AND (created_at, id) < ($3, $4)")

  func page(
    into target: SubjectID, beyond position: MigrationPosition?, count: Int
  ) async throws(StorageError) -> [Migration] {
    guard let position else {
      return try await db.all(Self.selectFirstPage, .id(target), .integer(count), map: Self.migration)
    }
    return try await db.all(
      Self.selectNextPage, .id(target), .integer(count), .time(position.createdAt), .id(position.id),
      map: Self.migration)
  }

  private static let selectTarget = "SELECT 1 FROM migrations WHERE target = $1 AND finished_at IS NULL LIMIT 1"

  func isTarget(_ target: SubjectID) async throws(StorageError) -> Bool {
    try await db.first(Self.selectTarget, .id(target)) { _ in true } ?? false
  }

  // MARK: The queue

  // Who claims at the same time takes the next one.
  private static let selectDue = """
    SELECT \(columns) FROM migrations
    WHERE finished_at IS NULL AND \(known) AND (run_at <= $1 OR run_at > $2)
      AND (lease IS NULL OR lease_until <= $1 OR lease_until > $2)
    ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
    """

  func lockDue(at now: Timestamp, unlessBeyond end: Timestamp) async throws(StorageError) -> StoredMigration? {
    try await db.first(Self.selectDue, .time(now), .time(end), map: Self.map)
  }

  private static let selectNextDue = """
    SELECT min(CASE WHEN lease IS NULL THEN run_at ELSE greatest(run_at, lease_until) END)
    FROM migrations WHERE finished_at IS NULL AND \(known)
    """

  func nextDue() async throws(StorageError) -> Timestamp? {
    try await db.first(Self.selectNextDue) { $0.optionalTimestamp(0) } ?? nil
  }

  private static let selectForgetting = "SELECT \(columns) FROM migrations WHERE is_forgetting AND \(known) LIMIT 1"
  private static let selectOver = """
    SELECT \(columns) FROM migrations WHERE undo_until <= $1 AND finished_at IS NOT NULL AND \(known)
    ORDER BY undo_until LIMIT 1
    """

  func findForgetting(at now: Timestamp) async throws(StorageError) -> StoredMigration? {
    if let begun = try await db.first(Self.selectForgetting, map: Self.map) { return begun }
    return try await db.first(Self.selectOver, .time(now), map: Self.map)
  }

  private static let selectUndoable = """
    SELECT \(columns) FROM migrations
    WHERE target = $1 AND undo_until IS NOT NULL AND phase NOT IN ('failed', 'undone')
    ORDER BY finished_at DESC NULLS FIRST, id DESC
    """

  func undoable(into target: SubjectID) async throws(StorageError) -> [StoredMigration] {
    try await db.all(Self.selectUndoable, .id(target), map: Self.map)
  }

  // MARK: Writing

  private static let insert = """
    INSERT INTO migrations (
      id, phase, cursor_collection, cursor_updated_at, cursor_key, done, total, failed_step, failure, finished_at,
      undo_until, run_at, lease, lease_until, failures, epoch, is_forgetting, kept_bytes, relaid, hindrance, plan,
      idempotency_key, guest, target, created_at
    ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
      $24, $25)
    """

  func insert(_ stored: StoredMigration) async throws(StorageError) {
    let migration = stored.migration
    let fixed: [PostgreSQLValue] = [
      .id(stored.plan), .text(stored.idempotencyKey), .id(migration.guest), .id(migration.target),
      .time(migration.createdAt),
    ]
    try await db.execute(Self.insert, Self.values(stored) + fixed)
  }

  private static let update = """
    UPDATE migrations SET phase = $2, cursor_collection = $3, cursor_updated_at = $4, cursor_key = $5, done = $6,
      total = $7, failed_step = $8, failure = $9, finished_at = $10, undo_until = $11, run_at = $12, lease = $13,
      lease_until = $14, failures = $15, epoch = $16, is_forgetting = $17, kept_bytes = $18, relaid = $19,
      hindrance = $20
    WHERE id = $1
    """

  func change(_ stored: StoredMigration) async throws(StorageError) {
    try await db.execute(Self.update, Self.values(stored))
  }

  /// What changes, after the id.
  private static func values(_ stored: StoredMigration) -> [PostgreSQLValue] {
    let migration = stored.migration
    let state = MigrationState(migration)
    return [
      .id(migration.id), .text(state.phase), .optional(state.cursorCollection), .optional(state.cursorUpdatedAt),
      .optional(state.cursorKey), .integer(migration.done), .integer(migration.total), .optional(state.failedStep),
      .optional(state.failure), .optional(state.finishedAt), .optional(migration.undoUntil?.millisecondsSinceEpoch),
      .time(stored.runAt), .optional(stored.claim?.holder.bytes), .optional(stored.claim?.until.millisecondsSinceEpoch),
      .integer(stored.failures), .integer(stored.epoch), .boolean(stored.isForgetting), .integer(stored.keptBytes),
      .integer(stored.relaid), .optional(stored.hindrance),
    ]
  }

  private static let deleteClaims = """
    UPDATE migrations SET lease = NULL, lease_until = NULL WHERE lease IS NOT NULL AND finished_at IS NULL
    """

  func removeClaims() async throws(StorageError) { try await db.execute(Self.deleteClaims) }

  private static let deleteUndo = """
    UPDATE migrations SET undo_until = NULL WHERE target = $1 AND undo_until IS NOT NULL
    """

  func removeUndo(into target: SubjectID) async throws(StorageError) {
    try await db.execute(Self.deleteUndo, .id(target))
  }
}
