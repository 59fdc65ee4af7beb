import LatchkeyModel

/// Accounts, the identities that lead to them and their passwords.
package protocol AccountStore: Sendable {
  /// The account behind an identifier, with its password's hash; nil when there is none.
  func account(for identifier: AccountIdentifier) async throws(StorageError) -> PasswordAccount?

  /// Puts a stronger hash of the same secret in the place of `old`; does nothing if that is no longer the hash.
  ///
  /// - Parameter identifier: what leads to the account: a custom one has a secret of its own.
  func replaceSecretHash(
    of identifier: AccountIdentifier, from old: String, to new: String, at now: Timestamp
  ) async throws(StorageError)

  func subject(_ id: SubjectID) async throws(StorageError) -> Subject?
}
