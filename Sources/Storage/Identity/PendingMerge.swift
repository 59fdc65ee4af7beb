import LatchkeyModel

/// A wish to move a guest's data into an account.
package struct PendingMerge: Sendable, Equatable {
  package struct Plan: Sendable, Equatable {
    package var id: String
    package var digest: String

    package init(id: String, digest: String) {
      self.id = id
      self.digest = digest
    }
  }

  package var id: MergeID
  package var guest: SubjectID
  package var guestSession: SessionID
  package var target: SubjectID
  package var targetSession: SessionID
  /// The account has not been used on this device before.
  package var isFirstLoginOnDevice: Bool
  package var attempts: Int64
  /// Nil for one that is not written down yet.
  package var createdAt: Timestamp?
  package var plan: Plan?
  /// Set once the migrator has taken it on.
  package var migration: String?

  package init(
    id: MergeID,
    guest: SubjectID,
    guestSession: SessionID,
    target: SubjectID,
    targetSession: SessionID,
    isFirstLoginOnDevice: Bool,
    attempts: Int64 = 0,
    createdAt: Timestamp? = nil,
    plan: Plan? = nil,
    migration: String? = nil
  ) {
    self.id = id
    self.guest = guest
    self.guestSession = guestSession
    self.target = target
    self.targetSession = targetSession
    self.isFirstLoginOnDevice = isFirstLoginOnDevice
    self.attempts = attempts
    self.createdAt = createdAt
    self.plan = plan
    self.migration = migration
  }
}
