import LatchkeyModel

/// The identities that lead to an account.
package protocol LinkStore: Sendable {
  func identities(of account: SubjectID) async throws(StorageError) -> [Identity]

  func passwordHash(of account: SubjectID) async throws(StorageError) -> String?

  /// Lets an identifier lead to the caller's account, as one change, if the caller's session is live then. Idempotent.
  ///
  /// - Parameters:
  ///   - code: the code by which the identifier was shown to be the caller's; it is spent.
  ///   - challenge: what the identifier's provider answered; it is used up.
  ///   - secretHash: the hash of a custom identifier's own secret, which takes the place of an earlier one.
  func link(
    _ identifier: AccountIdentifier, by caller: SessionID, code: OneTimeCode?, challenge: UsedChallenge?,
    secretHash: String?, at now: Timestamp
  ) async throws(StorageError) -> LinkOutcome

  /// Lets an identity lead to the caller's account no longer, as one change, if the caller's session is live then; never
  /// the last one.
  func unlink(
    _ identity: Identity, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> UnlinkOutcome
}
