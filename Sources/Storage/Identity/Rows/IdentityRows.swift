import LatchkeyModel

/// Identifiers that lead to accounts, by kind and canonical form, and the accounts' passwords.
package protocol IdentityRows {
  func find(
    _ identifier: AccountIdentifier
  ) async throws(StorageError) -> (identity: Identity, owner: SubjectID)?

  func lock(
    _ identifier: AccountIdentifier
  ) async throws(StorageError) -> (identity: Identity, owner: SubjectID)?

  /// The account behind an identifier, with the secret that signs in by it.
  func account(for identifier: AccountIdentifier) async throws(StorageError) -> PasswordAccount?

  /// Those of an account, in the order in which they were linked.
  func all(of account: SubjectID) async throws(StorageError) -> [Identity]

  /// What was linked to an account first.
  func first(of account: SubjectID) async throws(StorageError) -> Identity?

  /// False when the identifier leads to an account already: then nothing changed.
  ///
  /// - Parameter secretHash: of a secret of its own.
  func insert(
    _ identity: Identity, secretHash: String?, of account: SubjectID
  ) async throws(StorageError) -> Bool

  /// False when it was not the account's.
  func remove(
    _ kind: AccountIdentifier.Kind, _ value: String, of account: SubjectID
  ) async throws(StorageError) -> Bool

  /// All of an account.
  func remove(of account: SubjectID) async throws(StorageError)

  /// Stores when an address was shown to be its account's.
  func change(_ identifier: AccountIdentifier, verifiedAt time: Timestamp) async throws(StorageError)

  /// The hash of an account's password.
  func findPassword(of account: SubjectID) async throws(StorageError) -> String?

  func lockPassword(of account: SubjectID) async throws(StorageError) -> String?

  /// Stores the account's password, in the place of any it had.
  func putPassword(_ hash: String, of account: SubjectID, at now: Timestamp) async throws(StorageError)

  func removePassword(of account: SubjectID) async throws(StorageError)

  /// Stores a custom identifier's own secret.
  func change(_ identifier: AccountIdentifier, secretHash: String) async throws(StorageError)
}
