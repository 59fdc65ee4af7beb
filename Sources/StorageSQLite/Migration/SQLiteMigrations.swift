import LatchkeyModel
import Storage

/// The table `migrations`.
struct SQLiteMigrations: MigrationRows {
  let db: SQLiteConnection

  private static let columns = """
    \(MigrationState.columns), plan, idempotency_key, run_at, lease, lease_until, failures, epoch, is_forgetting,
    kept_bytes, relaid, hindrance
    """

  private static func map(_ row: SQLiteRow) throws(StorageError) -> StoredMigration {
    var claim: StoredMigration.Claim?
    if let bytes = row.optionalBlob(17) {
      guard let holder = OpaqueIDValue(bytes: bytes, in: row.cell) else {
        throw StorageError(.corrupt, operation: "read a row", detail: "no valid lease in its column")
      }
      claim = StoredMigration.Claim(holder: holder, until: row.timestamp(18))
    }
    return StoredMigration(
      plan: try row.opaqueID(14), idempotencyKey: row.text(15), migration: try MigrationState.migration(row),
      runAt: row.timestamp(16), claim: claim, failures: Int(row.integer(19)), hindrance: row.optionalText(24),
      epoch: row.integer(20), isForgetting: row.boolean(21), keptBytes: Int(row.integer(22)), relaid: row.integer(23))
  }

  private static let selectOne = "SELECT \(columns) FROM migrations WHERE id = ?"

  func find(_ id: MigrationID) throws(StorageError) -> StoredMigration? {
    try db.first(Self.selectOne, .id(id), map: Self.map)
  }

  func lock(_ id: MigrationID) throws(StorageError) -> StoredMigration? { try find(id) }

  func all(_ ids: [MigrationID]) throws(StorageError) -> [StoredMigration] {
    var found: [StoredMigration] = []
    for id in ids { if let stored = try find(id) { found.append(stored) } }
    return found
  }

  private static let selectByPlan = "SELECT id FROM migrations WHERE plan = ?"
  private static let selectByKey = "SELECT id FROM migrations WHERE target = ? AND idempotency_key = ?"

  func find(plan: PlanID) throws(StorageError) -> MigrationID? {
    try db.first(Self.selectByPlan, .id(plan)) { row throws(StorageError) in try row.opaqueID(0) }
  }

  func find(idempotencyKey: String, into target: SubjectID) throws(StorageError) -> MigrationID? {
    try db.first(Self.selectByKey, .id(target), .text(idempotencyKey)) { row throws(StorageError) in
      try row.opaqueID(0)
    }
  }

  private static let selectPage = """
    SELECT \(MigrationState.columns) FROM migrations WHERE target = ? AND (created_at, id) < (?, ?)
    ORDER BY created_at DESC, id DESC LIMIT ?
    """

  func page(
    into target: SubjectID, beyond position: MigrationPosition?, count: Int
  ) throws(StorageError) -> [Migration] {
    // Nothing is as late as this with an id as large.
    let createdAt = position?.createdAt ?? Timestamp(millisecondsSinceEpoch: .max)
    let id = position?.id.bytes ?? [UInt8](repeating: .max, count: 17)
    return try db.all(
      Self.selectPage, .id(target), .time(createdAt), .blob(id), .integer(count), map: MigrationState.migration)
  }

  private static let selectTarget = "SELECT 1 FROM migrations WHERE target = ? AND finished_at IS NULL LIMIT 1"

  func isTarget(_ target: SubjectID) throws(StorageError) -> Bool {
    try db.first(Self.selectTarget, .id(target)) { _ in true } ?? false
  }

  private static let selectDue = """
    SELECT \(columns) FROM migrations
    WHERE finished_at IS NULL AND (run_at <= ?1 OR run_at > ?2)
      AND (lease IS NULL OR lease_until <= ?1 OR lease_until > ?2)
    ORDER BY run_at LIMIT 1
    """

  func lockDue(at now: Timestamp, unlessBeyond end: Timestamp) throws(StorageError) -> StoredMigration? {
    try db.first(Self.selectDue, .time(now), .time(end), map: Self.map)
  }

  private static let selectNextDue = """
    SELECT min(CASE WHEN lease IS NULL THEN run_at ELSE max(run_at, lease_until) END)
    FROM migrations WHERE finished_at IS NULL
    """

  func nextDue() throws(StorageError) -> Timestamp? {
    try db.first(Self.selectNextDue) { $0.optionalInteger(0) }?.map { Timestamp(millisecondsSinceEpoch: $0) }
  }

  private static let selectForgetting = "SELECT \(columns) FROM migrations WHERE is_forgetting = 1 LIMIT 1"
  private static let selectOver = """
    SELECT \(columns) FROM migrations WHERE undo_until <= ? AND finished_at IS NOT NULL ORDER BY undo_until LIMIT 1
    """

  func findForgetting(at now: Timestamp) throws(StorageError) -> StoredMigration? {
    if let begun = try db.first(Self.selectForgetting, map: Self.map) { return begun }
    return try db.first(Self.selectOver, .time(now), map: Self.map)
  }

  private static let selectUndoable = """
    SELECT \(columns) FROM migrations WHERE target = ? AND undo_until IS NOT NULL AND phase NOT IN ('failed', 'undone')
    ORDER BY finished_at DESC NULLS FIRST, id DESC
    """

  func undoable(into target: SubjectID) throws(StorageError) -> [StoredMigration] {
    try db.all(Self.selectUndoable, .id(target), map: Self.map)
  }

  // MARK: Writing

  private static let insert = """
    INSERT INTO migrations (
      id, plan, idempotency_key, guest, target, created_at, phase, done, total, run_at
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """

  func insert(_ stored: StoredMigration) throws(StorageError) {
    let migration = stored.migration
    let state = MigrationState(migration)
    try db.execute(
      Self.insert, .id(migration.id), .id(stored.plan), .text(stored.idempotencyKey), .id(migration.guest),
      .id(migration.target), .time(migration.createdAt), .text(state.phase), .integer(migration.done),
      .integer(migration.total), .time(stored.runAt))
    try change(stored)
  }

  private static let update = """
    UPDATE migrations SET phase = ?2, cursor_collection = ?3, cursor_updated_at = ?4, cursor_key = ?5, done = ?6,
      total = ?7, failed_step = ?8, failure = ?9, finished_at = ?10, undo_until = ?11, run_at = ?12, lease = ?13,
      lease_until = ?14, failures = ?15, epoch = ?16, is_forgetting = ?17, kept_bytes = ?18, relaid = ?19,
      hindrance = ?20
    WHERE id = ?1
    """

  func change(_ stored: StoredMigration) throws(StorageError) {
    let migration = stored.migration
    let state = MigrationState(migration)
    try db.execute(
      Self.update, .id(migration.id), .text(state.phase), .optional(state.cursorCollection),
      .optional(state.cursorUpdatedAt), .optional(state.cursorKey), .integer(migration.done),
      .integer(migration.total), .optional(state.failedStep), .optional(state.failure), .optional(state.finishedAt),
      .optional(migration.undoUntil?.millisecondsSinceEpoch), .time(stored.runAt),
      .optional(stored.claim?.holder.bytes), .optional(stored.claim?.until.millisecondsSinceEpoch),
      .integer(stored.failures), .integer(stored.epoch), .boolean(stored.isForgetting), .integer(stored.keptBytes),
      .integer(stored.relaid), .optional(stored.hindrance))
  }

  private static let deleteClaims = """
    UPDATE migrations SET lease = NULL, lease_until = NULL WHERE lease IS NOT NULL AND finished_at IS NULL
    """

  func removeClaims() throws(StorageError) { try db.execute(Self.deleteClaims) }

  private static let deleteUndo = "UPDATE migrations SET undo_until = NULL WHERE target = ?"

  func removeUndo(into target: SubjectID) throws(StorageError) { try db.execute(Self.deleteUndo, .id(target)) }
}

/// The table `migration_collections`.
struct SQLiteReports: CollectionReportRows {
  let db: SQLiteConnection

  private static let select = """
    SELECT name, policy, maximum_rows, source_count, moved, kept, replaced, summed, refused, asked, remained
    FROM migration_collections WHERE migration = ? ORDER BY name
    """

  func all(of id: MigrationID) throws(StorageError) -> [CollectionReport] {
    try db.all(Self.select, .id(id)) { row throws(StorageError) in
      CollectionReport(
        collection: try row.collection(0),
        policy: try row.named(1),
        maximumRows: row.optionalInteger(2).map { Int($0) },
        sourceCount: Int(row.integer(3)),
        counts: [
          .moved: Int(row.integer(4)), .kept: Int(row.integer(5)), .replaced: Int(row.integer(6)),
          .summed: Int(row.integer(7)), .refused: Int(row.integer(8)), .asked: Int(row.integer(9)),
        ],
        remained: Int(row.integer(10)))
    }
  }

  private static let insert = """
    INSERT INTO migration_collections (migration, name, policy, maximum_rows, source_count, moved, kept, replaced,
      summed, refused, asked, remained)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """

  func insert(_ reports: [CollectionReport], of id: MigrationID) throws(StorageError) {
    try db.execute(Self.insert, forEach: reports) { report in
      [
        .id(id), .name(report.collection), .text(report.policy.rawValue),
        .optional(report.maximumRows.map { Int64($0) }), .integer(report.sourceCount),
      ] + Self.counts(report)
    }
  }

  private static let update = """
    UPDATE migration_collections SET moved = ?3, kept = ?4, replaced = ?5, summed = ?6, refused = ?7, asked = ?8,
      remained = ?9
    WHERE migration = ?1 AND name = ?2
    """

  func change(_ report: CollectionReport, of id: MigrationID) throws(StorageError) {
    try db.execute(Self.update, [.id(id), .name(report.collection)] + Self.counts(report))
  }

  private static func counts(_ report: CollectionReport) -> [SQLiteValue] {
    let outcomes: [MergeOutcome] = [.moved, .kept, .replaced, .summed, .refused, .asked]
    return outcomes.map { .integer(report[$0]) } + [.integer(report.remained)]
  }

  private static let delete = "DELETE FROM migration_collections WHERE migration = ? AND name = ?"

  func remove(_ collection: CollectionName, of id: MigrationID) throws(StorageError) {
    try db.execute(Self.delete, .id(id), .name(collection))
  }
}
