import LatchkeyModel

/// What came of a sign-in.
package enum SignInOutcome: Sendable, Equatable {
  case signedIn(SignedIn)
  /// The password changed, or the account went away, since it was looked up.
  case credentialChanged
  /// The challenge was answered before.
  case challengeUsed
  /// Unknown, spent, expired, or another guest's.
  case ticketInvalid
  case guestGone
  /// Somebody who runs the service keeps the account out.
  case disabled
  /// The guest's data is on its way into another account.
  case guestMerging
}
