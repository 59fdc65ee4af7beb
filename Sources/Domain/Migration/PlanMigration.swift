import LatchkeyModel
import Storage

/// What moving a guest's records into an account under these rules would do now.
package struct PlanMigration: MigrationOperation {
  package static let name = "plan a migration"

  package var guest: SubjectID
  package var target: SubjectID
  package var rules: CollectionRules
  package var isFirstLoginOnDevice: Bool
  /// How many records may wait for the account's owner.
  let setAsideRecords: Int

  package init(
    guest: SubjectID, target: SubjectID, rules: CollectionRules, isFirstLoginOnDevice: Bool, setAsideRecords: Int? = nil
  ) {
    self.setAsideRecords = setAsideRecords ?? Limits.setAsideRecords
    self.guest = guest
    self.target = target
    self.rules = rules
    self.isFirstLoginOnDevice = isFirstLoginOnDevice
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> WriteOutcome<MigrationPlan> {
    let owner = try await rows.owners.find(guest) ?? RecordOwner()
    if let refusal = owner.refusal(MigrationPlan.self) { return refusal }
    if try await rows.isUndecided(target, beyond: setAsideRecords) { return .tooManyConflicts }
    var collections: [MigrationPlan.Collection] = []
    for count in try await rows.counts.all(of: guest) {
      let overlap = try await rows.records.overlap(count.collection, of: guest, with: target)
      collections.append(
        MigrationPlan.Collection(
          name: count.collection,
          rule: rules[count.collection],
          sourceCount: count.count,
          targetCount: try await rows.counts.find(count.collection, of: target),
          conflicts: overlap.shared,
          overflows: overlap.overflowing))
    }
    return .done(
      MigrationPlan(
        guest: guest,
        target: target,
        guestVersion: owner.version,
        targetVersion: try await rows.owners.find(target)?.version ?? 0,
        isFirstLoginOnDevice: isFirstLoginOnDevice,
        collections: collections))
  }
}

extension MigrationTransaction {
  /// Whether so many of guests' records wait for an account's owner that it may take no more guests.
  func isUndecided(_ account: SubjectID, beyond most: Int) async throws(StorageError) -> Bool {
    let waiting = try await setAside.size(into: account, limit: most)
    return waiting.records >= most || waiting.bytes >= Limits.setAsideBytes
  }
}

/// Keeps a plan until it expires, in place of an earlier one for the same guest and target that was not started.
package struct SavePlan: MigrationCommand {
  package static let name = "save a plan"

  package var plan: MigrationPlan
  package var id: PlanID
  package var digest: [UInt8]
  package var now: Timestamp
  package var expiresAt: Timestamp

  package init(_ plan: MigrationPlan, as id: PlanID, digest: [UInt8], at now: Timestamp, expiresAt: Timestamp) {
    self.plan = plan
    self.id = id
    self.digest = digest
    self.now = now
    self.expiresAt = expiresAt
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) {
    // One at a time: a guest and a target have one plan that waits.
    try await rows.lockOwners([plan.guest])
    try await rows.plans.removeWaiting(of: plan.guest, into: plan.target)
    try await rows.plans.removeWaiting(expiredBefore: now - Limits.expiredPlanKept, limit: Limits.expiredPlans)
    var rules: [CollectionName: CollectionRules.Rule] = [:]
    for collection in plan.collections { rules[collection.name] = collection.rule }
    try await rows.plans.insert(
      StoredPlan(
        id: id, guest: plan.guest, target: plan.target, digest: digest, guestVersion: plan.guestVersion,
        targetVersion: plan.targetVersion, expiresAt: expiresAt),
      rules: rules)
  }
}

/// A plan that was saved and has not been replaced. It may have expired.
package struct FindPlan: MigrationOperation {
  package static let name = "find a plan"

  package var id: PlanID

  package init(_ id: PlanID) {
    self.id = id
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> StoredPlan? {
    try await rows.plans.find(id)
  }
}
