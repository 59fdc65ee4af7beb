import LatchkeyModel

/// The identities that lead to an account.
package protocol LinkStore: Sendable {
  func identities(of account: SubjectID) async throws(StorageError) -> [Identity]

  func passwordHash(of account: SubjectID) async throws(StorageError) -> String?

  /// Lets an identifier lead to the account, as one change. Idempotent.
  ///
  /// - Parameters:
  ///   - code: the code by which the identifier was shown to be the caller's; it is spent.
  ///   - challenge: what the identifier's provider answered; it is used up.
  ///   - secretHash: the hash of a custom identifier's own secret, which takes the place of an earlier one.
  func link(
    _ identifier: AccountIdentifier, to account: SubjectID, code: OneTimeCode?, challenge: UsedChallenge?,
    secretHash: String?, at now: Timestamp
  ) async throws(StorageError) -> LinkOutcome

  /// Lets an identity lead to the account no longer, as one change; never the last one.
  func unlink(
    _ identity: Identity, from account: SubjectID, at now: Timestamp
  ) async throws(StorageError) -> UnlinkOutcome
}
