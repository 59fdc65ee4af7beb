import LatchkeyModel
import Storage

/// A worker does what a migration has to do next, within the transaction that also stores the new state. Nil when its
/// claim is lost or the migration stands elsewhere: nothing was changed.
package struct TakeStep: MigrationCommand {
  package static let name = "take a migration's step"

  let action: Migration.Action
  let id: MigrationID
  let lease: JobLease
  let undoWindow: Duration
  let undoBytes: Int
  let now: Timestamp
  /// What VERIFY has found so far.
  var check: MigrationCheck?

  init(
    _ action: Migration.Action, of id: MigrationID, lease: JobLease, undoWindow: Duration, undoBytes: Int,
    at now: Timestamp
  ) {
    self.action = action
    self.id = id
    self.lease = lease
    self.undoWindow = undoWindow
    self.undoBytes = undoBytes
    self.now = now
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Migration? {
    guard var stored = try await locked(in: rows), stored.isHeld(by: lease, at: now),
      stored.migration.action == action, try await perform(on: &stored, in: rows)
    else { return nil }
    stored.moved(lease, at: now)
    try await rows.migrations.change(stored)
    return stored.migration
  }

  private func locked(in rows: some MigrationTransaction) async throws(StorageError) -> StoredMigration? {
    switch action {
    case .countRecords, .verify, .recallSubject, .tellFailure: try await rows.migrations.lock(id)
    case .freezeGuest, .applyRecords, .switchSubject, .purgeRecords, .undoRecords, .restoreRecords:
      try await rows.lockWithOwners(id)
    }
  }

  /// Does it and tells the migration about it. False: it does not stand at that step.
  private func perform(
    on stored: inout StoredMigration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    switch action {
    case .freezeGuest: return try await freeze(&stored.migration, in: rows)
    case .countRecords: return try await count(&stored, in: rows)
    case .applyRecords(let cursor): return try await apply(&stored, after: cursor, in: rows)
    case .verify:
      guard let check, check.isOver else { return check != nil }
      return stored.migration.verified(problem: check.problem) != nil
    case .switchSubject: return try await markMigrated(&stored.migration, in: rows)
    case .purgeRecords: return try await purge(&stored, in: rows)
    case .undoRecords: return try await takeBack(&stored.migration, in: rows)
    case .recallSubject: return stored.migration.subjectRecalled() != nil
    case .restoreRecords: return try await restore(&stored.migration, in: rows)
    case .tellFailure: return stored.migration.failureTold(at: now) != nil || stored.migration.isFinished
    }
  }

  // MARK: FREEZE

  private func freeze(
    _ migration: inout Migration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    var guest = try await SubjectRecords(of: migration.guest, in: rows)
    guard guest.owner.migration == nil || guest.owner.migration == id else { return false }
    guest.owner.migration = id
    try await guest.finish()
    return migration.guestFrozen() != nil
  }

  // MARK: SNAPSHOT

  /// The guest is frozen since the transaction that compared it with the plan, so the plan names each collection.
  private func count(
    _ stored: inout StoredMigration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    let rules = try await rows.plans.rules(of: stored.plan)
    var reports: [CollectionReport] = []
    for count in try await rows.counts.all(of: stored.migration.guest) {
      guard let rule = rules[count.collection] else {
        throw StorageError(.corrupt, operation: "snapshot", detail: "the guest has collections that the plan has not")
      }
      reports.append(
        CollectionReport(
          collection: count.collection, policy: rule.policy, maximumRows: rule.maximumRows, sourceCount: count.count))
    }
    try await rows.reports.insert(reports, of: id)
    return stored.migration.recordsCounted(reports.reduce(0) { $0 + $1.sourceCount }) != nil
  }

  // MARK: SWITCH

  private func markMigrated(
    _ migration: inout Migration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    try await migration.mark(isMigrated: true, in: rows)
    return migration.subjectSwitched() != nil
  }

  // MARK: PURGE

  /// The guest's records go, or wait where taking back finds them.
  private func purge(
    _ stored: inout StoredMigration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    var guest = try await SubjectRecords(of: stored.migration.guest, in: rows)
    let isKept = undoWindow > .zero
    let isLast: Bool
    if isKept {
      isLast =
        try await rows.moved.take(
          from: guest.subject, for: id, count: Limits.applyRecords, bytes: Limits.applyBytes) == 0
    } else {
      let outcomes = try await rows.merged.remove(of: id, limit: Limits.purgeRecords)
      let records = try await rows.records.remove(of: guest.subject, limit: Limits.purgeRecords)
      isLast = records < Limits.purgeRecords && outcomes < Limits.purgeRecords
    }
    if isLast {
      stored.keptBytes += RecordBounds.cost(records: guest.owner.records, bytes: guest.owner.bytes)
      try await guest.forgetCounts()
      try await guest.finish()
      // What was planned is told by the report from here on.
      try await rows.plans.removeRules(of: stored.plan)
      if isKept { try await stored.makeRoom(within: undoBytes, in: rows) }
    }
    let undoUntil = isKept ? now + undoWindow : nil
    return stored.migration.recordsPurged(isLast: isLast, at: now, undoUntil: undoUntil) != nil
      || stored.migration.isFinished
  }
}

extension Migration {
  /// Notes whether the guest's records are the account's, for good as far as anybody can tell, or on their way.
  func mark(isMigrated: Bool, in rows: some MigrationTransaction) async throws(StorageError) {
    var guest = try await SubjectRecords(of: guest, in: rows)
    guard guest.owner.migration == id else {
      throw StorageError(
        .corrupt, operation: "mark a guest", detail: "the guest is not frozen by its migration")
    }
    guest.owner.isMigrated = isMigrated
    try await guest.finish()
  }
}

/// Identity will never do what a step asked of it: it will not switch the guest, or not make it one again. What was merged
/// is undone from here on, or the migration is done as before. Nil as for a step.
package struct RefuseStep: MigrationCommand {
  package static let name = "refuse a migration's step"

  package enum Step: Sendable, Equatable {
    case `switch`
    case recall
  }

  package var step: Step
  package var id: MigrationID
  package var reason: String
  package var lease: JobLease
  package var now: Timestamp

  package init(_ step: Step, of id: MigrationID, reason: String, lease: JobLease, at now: Timestamp) {
    self.step = step
    self.id = id
    self.reason = reason
    self.lease = lease
    self.now = now
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Migration? {
    guard var stored = try await rows.lockWithOwners(id), stored.isHeld(by: lease, at: now) else { return nil }
    switch step {
    case .switch: guard stored.migration.switchRefused(reason: reason) != nil else { return nil }
    case .recall:
      guard stored.migration.recallRefused(reason: reason, at: now) else { return nil }
      try await stored.migration.mark(isMigrated: true, in: rows)
    }
    stored.moved(lease, at: now)
    try await rows.migrations.change(stored)
    return stored.migration
  }
}
