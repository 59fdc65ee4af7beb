import LatchkeyModel
import Storage

/// How a migration is stored.
enum MigrationRow {
  /// The columns that `migration(_:)` reads, in its order.
  static let columns = """
    id, guest, target, phase, cursor_collection, cursor_updated_at, cursor_key, done, total, failed_step, failure,
    created_at, finished_at, undo_until
    """

  private static let select = "SELECT \(columns) FROM migrations WHERE id = ?"

  static func find(_ id: MigrationID, in db: SQLiteConnection) throws(StorageError) -> Migration? {
    try db.first(select, .id(id)) { row throws(StorageError) in try migration(row) }
  }

  static func migration(_ row: SQLiteRow) throws(StorageError) -> Migration {
    let state = try state(row)
    var undoRefusal: String?
    if case .done = state { undoRefusal = row.optionalText(10) }
    return Migration(
      id: try row.opaqueID(0),
      guest: try row.opaqueID(1),
      target: try row.opaqueID(2),
      createdAt: row.timestamp(11),
      state: state,
      done: Int(row.integer(7)),
      total: Int(row.integer(8)),
      undoUntil: row.optionalInteger(13).map { Timestamp(millisecondsSinceEpoch: $0) },
      undoRefusal: undoRefusal)
  }

  private static func state(_ row: SQLiteRow) throws(StorageError) -> Migration.State {
    switch try row.named(3, as: Phase.self) {
    case .freeze: return .freezing
    case .snapshot: return .counting
    case .apply:
      if row.isNull(4) { return .applying(after: nil) }
      let name = RecordName(collection: try row.collection(4), key: try row.recordKey(6))
      if row.isNull(5) { return .applying(after: Migration.Cursor(after: name)) }
      let position = RecordPosition(updatedAt: row.timestamp(5), key: name.key)
      return .applying(after: Migration.Cursor(collection: name.collection, position: position))
    case .verify: return .verifying
    case .switch: return .switching
    case .purge: return .purging
    case .done: return .done(at: row.timestamp(12))
    case .undo: return .undoing(try row.named(9), reason: row.text(10))
    case .tell: return .telling(try row.named(9), reason: row.text(10))
    case .failed: return .failed(try row.named(9), reason: row.text(10), at: row.timestamp(12))
    case .recall: return .recalling
    case .restore: return .restoring
    case .return: return .returning
    case .undone: return .undone(at: row.timestamp(12))
    }
  }

  private static let insert = """
    INSERT INTO migrations (
      id, plan, idempotency_key, guest, target, phase, done, total, created_at, run_at
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
    """

  static func insert(
    _ migration: Migration,
    plan: PlanID,
    idempotencyKey: String,
    in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      insert, .id(migration.id), .id(plan), .text(idempotencyKey), .id(migration.guest), .id(migration.target),
      .text(Phase(migration.state).rawValue), .integer(migration.done), .integer(migration.total),
      .time(migration.createdAt))
  }

  private static let update = """
    UPDATE migrations SET phase = ?2, cursor_collection = ?3, cursor_updated_at = ?4, cursor_key = ?5, done = ?6,
      total = ?7, failed_step = ?8, failure = ?9, finished_at = ?10, lease_until = ?11, undo_until = ?12,
      lease = iif(?10 IS NULL, lease, NULL), failures = 0
    WHERE id = ?1
    """

  /// Stores a new state; the lease goes on, or ends with the migration.
  static func update(_ migration: Migration, leaseUntil: Timestamp, in db: SQLiteConnection) throws(StorageError) {
    var cursor: Migration.Cursor?
    var failedStep: MigrationStep?
    var failure = migration.undoRefusal
    var finishedAt: Timestamp?
    switch migration.state {
    case .applying(let after): cursor = after
    case .done(let time), .undone(let time): finishedAt = time
    case .failed(let step, let reason, let time):
      (failedStep, failure) = (step, reason)
      finishedAt = time
    case .undoing(let step, let reason), .telling(let step, let reason): (failedStep, failure) = (step, reason)
    case .freezing, .counting, .verifying, .switching, .purging, .recalling, .restoring, .returning: break
    }
    try db.execute(
      update, .id(migration.id), .text(Phase(migration.state).rawValue),
      .optional(cursor?.collection.description), .optional(cursor?.updatedAt?.millisecondsSinceEpoch),
      .optional(cursor?.key.description), .integer(migration.done), .integer(migration.total),
      .optional(failedStep?.rawValue), .optional(failure), .optional(finishedAt?.millisecondsSinceEpoch),
      .time(leaseUntil), .optional(migration.undoUntil?.millisecondsSinceEpoch))
  }

  private static let makeDue = "UPDATE migrations SET run_at = ?2, lease_until = NULL WHERE id = ?1"

  /// Stores a new state of what was finished, and has it taken on now.
  static func requeue(_ migration: Migration, at now: Timestamp, in db: SQLiteConnection) throws(StorageError) {
    try update(migration, leaseUntil: now, in: db)
    try db.execute(makeDue, .id(migration.id), .time(now))
  }

  /// The state without what it carries.
  private enum Phase: String {
    case freeze, snapshot, apply, verify, `switch`, purge, done, undo, tell, failed
    case recall, restore, `return`, undone

    init(_ state: Migration.State) {
      self =
        switch state {
        case .freezing: .freeze
        case .counting: .snapshot
        case .applying: .apply
        case .verifying: .verify
        case .switching: .switch
        case .purging: .purge
        case .done: .done
        case .undoing: .undo
        case .telling: .tell
        case .failed: .failed
        case .recalling: .recall
        case .restoring: .restore
        case .returning: .return
        case .undone: .undone
        }
    }
  }
}
