import LatchkeyModel

/// A session that began, and what that changed for the device.
package struct SignedIn: Sendable, Equatable {
  package var session: Session
  package var profile: Profile
  /// Who used this device before: the guest, or the account before it.
  package var previousSubject: SubjectID?
  package var isPromoted: Bool
  /// Another account used this device before.
  package var isWipeRequired: Bool
  package var merge: PendingMerge?

  package init(
    session: Session,
    profile: Profile,
    previousSubject: SubjectID?,
    isPromoted: Bool = false,
    isWipeRequired: Bool = false,
    merge: PendingMerge? = nil
  ) {
    self.session = session
    self.profile = profile
    self.previousSubject = previousSubject
    self.isPromoted = isPromoted
    self.isWipeRequired = isWipeRequired
    self.merge = merge
  }
}
