/// What came of linking an identifier.
package enum LinkOutcome: Sendable, Equatable {
  case linked(Identity)
  /// It led to this account before.
  case already(Identity)
  /// It leads to another account.
  case taken
  /// Another account has the address, whose owner never showed to be it: a code would decide.
  case unproven
  /// The code was spent meanwhile.
  case codeSpent
  case challengeUsed
  /// The caller's session ended meanwhile.
  case callerEnded
  /// The account has as many identities as one may have.
  case full
}
