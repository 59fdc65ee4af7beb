import LatchkeyModel

/// What an account's owner changes of it.
package protocol OwnerStore: Sendable {
  /// Writes the fields that are given, if the caller's session is live then. Nil when it is not.
  func updateProfile(
    by caller: SessionID, at now: Timestamp, _ change: @escaping @Sendable (inout Profile) -> Void
  ) async throws(StorageError) -> Profile?

  func changePassword(_ change: PasswordChange) async throws(StorageError) -> PasswordChange.Outcome

  /// Notes that the address is the owner's, and spends the code, if it is one of the caller's account.
  func verify(
    _ identifier: AccountIdentifier, by caller: SessionID, code: OneTimeCode, at now: Timestamp
  ) async throws(StorageError) -> VerificationOutcome
}

/// What came of verifying an address.
package enum VerificationOutcome: Sendable, Equatable {
  case verified
  /// It was before.
  case already
  /// The account has no such address.
  case notFound
  case codeSpent
  case callerEnded
}
