import LatchkeyModel
import Storage

/// Makes the migration of a plan and freezes its guest, if the records are still those that were planned for. Idempotent
/// for each plan, and for each target and idempotency key.
package struct StartMigration: MigrationCommand {
  package static let name = "start a migration"

  package var plan: PlanID
  package var id: MigrationID
  package var idempotencyKey: String
  package var now: Timestamp
  /// How many records may wait for the account's owner.
  let setAsideRecords: Int

  package init(
    _ plan: PlanID, as id: MigrationID, idempotencyKey: String, at now: Timestamp, setAsideRecords: Int? = nil
  ) {
    self.setAsideRecords = setAsideRecords ?? Limits.setAsideRecords
    self.plan = plan
    self.id = id
    self.idempotencyKey = idempotencyKey
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    /// A new migration, or the one that this plan or key already started.
    case started(MigrationID)
    /// The records changed since the plan was made, or the plan was replaced or has expired.
    case stale
    /// The key has started another plan.
    case keyReused
    /// Another migration of the same guest is under way.
    case migrating
    /// The guest's records have already been moved.
    case migrated
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Outcome {
    guard let shown = try await rows.plans.find(plan) else { return .stale }
    try await rows.lockOwners([shown.guest, shown.target])
    // It may have been started or replaced before the owners were locked.
    let planned = try await rows.plans.lock(plan)
    if let started = try await rows.migrations.find(plan: plan) { return .started(started) }
    guard let planned, now < planned.expiresAt else { return .stale }
    let key = try await rows.migrations.find(idempotencyKey: idempotencyKey, into: planned.target)
    if key != nil { return .keyReused }
    var guest = try await SubjectRecords(of: planned.guest, in: rows)
    if guest.owner.isMigrated { return .migrated }
    if guest.owner.migration != nil { return .migrating }
    var target = try await SubjectRecords(of: planned.target, in: rows)
    guard guest.owner.version == planned.guestVersion, target.owner.version == planned.targetVersion,
      target.owner.mayTakeRecords, !guest.owner.isDeleted
    else { return .stale }
    // Those whose plans were made before: planning anew tells them why.
    if try await rows.isUndecided(planned.target, beyond: setAsideRecords) { return .stale }
    // From here on nobody can change what was planned for.
    guest.owner.migration = id
    try await guest.finish()
    if target.owner.isGuest {
      // Who is merged into is an account.
      target.owner.isGuest = false
      try await target.finish()
    }
    var migration = Migration(id: id, guest: planned.guest, target: planned.target, createdAt: now)
    _ = migration.guestFrozen()
    try await rows.plans.changeStarted(plan)
    try await rows.migrations.insert(
      StoredMigration(plan: plan, idempotencyKey: idempotencyKey, migration: migration, runAt: now))
    return .started(id)
  }
}

extension RecordOwner {
  /// An account whose records are being moved elsewhere, or were, cannot take any: it is no account any more.
  var mayTakeRecords: Bool { migration == nil && !isMigrated && !isDeleted }
}

/// Begins a failed migration again, if the guest's records are still those that were planned for. Idempotent.
package struct RetryMigration: MigrationCommand {
  package static let name = "retry a migration"

  package var id: MigrationID

  package init(_ id: MigrationID) {
    self.id = id
  }

  package enum Outcome: Sendable, Equatable {
    case retried
    /// It is under way, or done.
    case notFailed
    /// The records are others now: plan again.
    case stale
    /// Another migration has the guest.
    case migrating
    case migrated
    case unknown
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Outcome {
    guard var stored = try await rows.lockWithOwners(id) else { return .unknown }
    guard case .failed = stored.migration.state else { return .notFailed }
    var guest = try await SubjectRecords(of: stored.migration.guest, in: rows)
    if guest.owner.isMigrated { return .migrated }
    if let other = guest.owner.migration, other != id { return .migrating }
    let target = try await rows.owners.lock(stored.migration.target) ?? RecordOwner()
    let planned = try await rows.plans.find(stored.plan)
    guard planned?.guestVersion == guest.owner.version, !guest.owner.isDeleted, target.mayTakeRecords else {
      return .stale
    }
    guest.owner.migration = id
    try await guest.finish()
    _ = stored.migration.retried()
    // What an earlier try left is told no longer.
    for report in try await rows.reports.all(of: id) { try await rows.reports.remove(report.collection, of: id) }
    (stored.failures, stored.hindrance, stored.keptBytes) = (0, nil, 0)
    // What some instance had verified of that try holds no longer.
    stored.relaid += 1
    try await rows.migrations.change(stored)
    return .retried
  }
}
