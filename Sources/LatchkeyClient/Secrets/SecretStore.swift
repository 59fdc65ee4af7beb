/// Where an app keeps what only this device may know: the Keychain on Apple's systems, a file elsewhere.
///
/// The one rule that matters: *not there* and *cannot tell* are different answers. A locked keychain read as an empty
/// one would make the app sign up a second guest and lose the first.
public protocol SecretStore: Sendable {
  /// The secret of that name, or nil when there certainly is none.
  func secret(named name: String) throws(SecretStoreError) -> [UInt8]?

  /// Keeps a secret under a name that has none; false, changing nothing, when the name is taken.
  func add(_ secret: [UInt8], as name: String) throws(SecretStoreError) -> Bool

  /// Keeps a secret, in place of any other of that name. Durable when it returns; a crash leaves the old or the new.
  func save(_ secret: [UInt8], as name: String) throws(SecretStoreError)

  /// Keeps what `change` makes of a secret, which it is given as ``secret(named:)`` would tell it. One step: of several
  /// that change the same secret at the same time, in this process or another, each is given what the one before kept.
  /// Durable when it returns. `change` may be called again.
  func update(
    _ name: String, _ change: ([UInt8]?) throws(SecretStoreError) -> [UInt8]
  ) throws(SecretStoreError)

  /// Forgets a secret. Forgetting what is not there is no error.
  func removeSecret(named name: String) throws(SecretStoreError)
}
