import LatchkeyModel

/// A plan that was shown to its caller, without its collections.
package struct StoredPlan: Sendable, Equatable {
  package let id: PlanID
  package let guest: SubjectID
  package let target: SubjectID
  /// What the caller has to repeat to start it.
  package let digest: [UInt8]
  package let expiresAt: Timestamp

  package init(id: PlanID, guest: SubjectID, target: SubjectID, digest: [UInt8], expiresAt: Timestamp) {
    self.id = id
    self.guest = guest
    self.target = target
    self.digest = digest
    self.expiresAt = expiresAt
  }
}
