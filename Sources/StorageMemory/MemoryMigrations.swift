import LatchkeyModel
import Storage

struct MemoryPlans: PlanRows {
  let tables: MemoryMigrationTables

  func find(_ id: PlanID) -> StoredPlan? { tables.plans[id]?.plan }

  func lock(_ id: PlanID) -> StoredPlan? { find(id) }

  func rules(of id: PlanID) -> [CollectionName: CollectionRules.Rule] { tables.plans[id]?.rules ?? [:] }

  func insert(_ plan: StoredPlan, rules: [CollectionName: CollectionRules.Rule]) throws(StorageError) {
    let isTaken = tables.plans.rows.values.contains {
      !$0.isStarted && $0.plan.guest == plan.guest && $0.plan.target == plan.target
    }
    if isTaken { throw StorageError(.constraint(.unique), operation: "insert a plan") }
    try tables.plans.insert(plan.id, MemoryMigrationTables.PlanRow(plan: plan, rules: rules), "insert a plan")
  }

  func changeStarted(_ id: PlanID) { tables.plans.change(id) { $0.isStarted = true } }

  func removeWaiting(of guest: SubjectID, into target: SubjectID?) {
    tables.plans.remove { !$1.isStarted && $1.plan.guest == guest && (target == nil || $1.plan.target == target) }
  }

  func removeWaiting(expiredBefore time: Timestamp, limit: Int) {
    let expired = tables.plans.rows.values.filter { !$0.isStarted && $0.plan.expiresAt < time }
    for row in expired.sorted(by: { $0.plan.expiresAt < $1.plan.expiresAt }).prefix(limit) {
      tables.plans[row.plan.id] = nil
    }
  }

  func removeRules(of id: PlanID) { tables.plans.change(id) { $0.rules = [:] } }
}

struct MemoryMigrations: MigrationRows {
  let tables: MemoryMigrationTables

  func find(_ id: MigrationID) -> StoredMigration? { tables.migrations[id] }

  func lock(_ id: MigrationID) -> StoredMigration? { find(id) }

  func all(_ ids: [MigrationID]) -> [StoredMigration] { ids.compactMap { find($0) } }

  func find(plan: PlanID) -> MigrationID? {
    tables.migrations.rows.values.first { $0.plan == plan }?.migration.id
  }

  func find(idempotencyKey: String, into target: SubjectID) -> MigrationID? {
    tables.into(target).first { $0.idempotencyKey == idempotencyKey }?.migration.id
  }

  func page(into target: SubjectID, beyond position: MigrationPosition?, count: Int) -> [Migration] {
    let older = tables.into(target).map(\.migration).filter { migration in
      position.map { (migration.createdAt, migration.id) < ($0.createdAt, $0.id) } ?? true
    }
    return Array(older.sorted { ($1.createdAt, $1.id) < ($0.createdAt, $0.id) }.prefix(count))
  }

  func isTarget(_ target: SubjectID) -> Bool { tables.into(target).contains { !$0.migration.isFinished } }

  private var underWay: [StoredMigration] { tables.migrations.rows.values.filter { !$0.migration.isFinished } }

  func lockDue(at now: Timestamp, unlessBeyond end: Timestamp) -> StoredMigration? {
    let due = underWay.filter { stored in
      (stored.runAt <= now || stored.runAt > end) && (stored.claim.map { $0.until <= now || $0.until > end } ?? true)
    }
    return due.min { ($0.runAt, $0.migration.id) < ($1.runAt, $1.migration.id) }
  }

  func nextDue() -> Timestamp? { underWay.map { max($0.runAt, $0.claim?.until ?? $0.runAt) }.min() }

  func findForgetting(at now: Timestamp) -> StoredMigration? {
    let finished = tables.migrations.rows.values.filter(\.migration.isFinished)
    if let begun = finished.first(where: \.isForgetting) { return begun }
    let over = finished.filter { $0.migration.undoUntil.map { $0 <= now } ?? false }
    return over.min { ($0.migration.undoUntil ?? now) < ($1.migration.undoUntil ?? now) }
  }

  func undoable(into target: SubjectID) -> [StoredMigration] {
    let kept = tables.into(target).filter { $0.migration.undoUntil != nil && !$0.migration.isReversed }
    return kept.sorted { left, right in
      let (leftEnd, rightEnd) = (left.migration.finishedAt, right.migration.finishedAt)
      guard let leftEnd, let rightEnd else { return leftEnd == nil && rightEnd != nil }
      return (rightEnd, right.migration.id) < (leftEnd, left.migration.id)
    }
  }

  func insert(_ migration: StoredMigration) throws(StorageError) {
    let isTaken = tables.migrations.rows.values.contains { other in
      other.plan == migration.plan
        || (other.migration.guest == migration.migration.guest && !other.migration.isReversed)
        || (other.migration.target == migration.migration.target
          && other.idempotencyKey == migration.idempotencyKey)
    }
    if isTaken { throw StorageError(.constraint(.unique), operation: "insert a migration") }
    try tables.migrations.insert(migration.migration.id, migration, "insert a migration")
  }

  func change(_ migration: StoredMigration) { tables.migrations.change(migration.migration.id) { $0 = migration } }

  func removeClaims() {
    for stored in underWay { tables.migrations.change(stored.migration.id) { $0.claim = nil } }
  }

  func removeUndo(into target: SubjectID) {
    for stored in tables.into(target) {
      tables.migrations.change(stored.migration.id) { $0.migration.undoForgotten() }
    }
  }
}

struct MemoryReports: CollectionReportRows {
  let tables: MemoryMigrationTables

  func all(of id: MigrationID) -> [CollectionReport] { tables.reports.all(id).map(\.row) }

  func insert(_ reports: [CollectionReport], of id: MigrationID) throws(StorageError) {
    for report in reports { try tables.reports.insert(id, report.collection, report, "insert a report") }
  }

  func change(_ report: CollectionReport, of id: MigrationID) {
    if tables.reports[id, report.collection] != nil { tables.reports[id, report.collection] = report }
  }

  func remove(_ collection: CollectionName, of id: MigrationID) { tables.reports[id, collection] = nil }
}

extension Migration {
  fileprivate var finishedAt: Timestamp? {
    switch state {
    case .done(let time), .failed(_, _, let time), .undone(let time): time
    default: nil
    }
  }

  /// Whether the account has nothing by it.
  var isReversed: Bool {
    switch state {
    case .failed, .undone: true
    default: false
    }
  }
}
