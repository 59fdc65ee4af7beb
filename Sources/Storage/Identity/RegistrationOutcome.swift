import LatchkeyModel

/// What came of a registration.
package enum RegistrationOutcome: Sendable, Equatable {
  case registered(SignedIn)
  case identifierTaken
  /// An account has the address, whose owner never showed to be it: a code would decide.
  case identifierUnproven
  case codeSpent
  case challengeUsed
  /// The guest's session ended or the guest is none any more.
  case guestGone
  /// The guest's data is on its way into another account.
  case guestMerging
}
