import LatchkeyModel

/// Plans of migrations, by their ids. A guest and a target have one that waits, at most.
package protocol PlanRows {
  func find(_ id: PlanID) async throws(StorageError) -> StoredPlan?

  func lock(_ id: PlanID) async throws(StorageError) -> StoredPlan?

  /// How each collection of the guest is to be merged.
  func rules(of id: PlanID) async throws(StorageError) -> [CollectionName: CollectionRules.Rule]

  func insert(
    _ plan: StoredPlan, rules: [CollectionName: CollectionRules.Rule]
  ) async throws(StorageError)

  /// It waits no longer.
  func changeStarted(_ id: PlanID) async throws(StorageError)

  /// Those that wait, of a guest and a target or of a guest and anybody.
  func removeWaiting(of guest: SubjectID, into target: SubjectID?) async throws(StorageError)

  /// At most `limit` of those that wait and have expired before `time`.
  func removeWaiting(expiredBefore time: Timestamp, limit: Int) async throws(StorageError)

  func removeRules(of id: PlanID) async throws(StorageError)
}

/// A plan that was shown to its caller, without its collections.
package struct StoredPlan: Sendable, Equatable {
  package let id: PlanID
  package let guest: SubjectID
  package let target: SubjectID
  /// What the caller has to repeat to start it.
  package let digest: [UInt8]
  /// How often the records of each had been changed.
  package let guestVersion: Int64
  package let targetVersion: Int64
  package let expiresAt: Timestamp

  package init(
    id: PlanID, guest: SubjectID, target: SubjectID, digest: [UInt8], guestVersion: Int64, targetVersion: Int64,
    expiresAt: Timestamp
  ) {
    self.id = id
    self.guest = guest
    self.target = target
    self.digest = digest
    self.guestVersion = guestVersion
    self.targetVersion = targetVersion
    self.expiresAt = expiresAt
  }
}
