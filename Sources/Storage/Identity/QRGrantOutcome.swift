import LatchkeyModel

/// What came of a grant.
package enum QRGrantOutcome: Sendable, Equatable {
  case issued(Session, Profile)
  /// No such account, or a guest.
  case noAccount
  /// The confirming session ended, or is not the subject's.
  case confirmerGone
  case revoked
  /// The guest's data is on its way into an account.
  case merging
  /// The device's key opens another account, by its owner's own enrolment.
  case keyTaken
  /// The account has as many devices that open it as one may have.
  case tooManyUnlocks
}
