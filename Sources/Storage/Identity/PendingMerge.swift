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

  /// As it is stored: never renumbered.
  package enum State: Int64, Sendable {
    case wanted = 0
    case started = 1
    case completed = 2
    case abandoned = 3

    package var isOpen: Bool { self == .wanted || self == .started }
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
  package var state = State.wanted
  /// Why it went no further when it was last offered, or at all.
  package var lastError: String?

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
