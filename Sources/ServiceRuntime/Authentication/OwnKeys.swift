package import Cryptography

/// The keys of the identity service itself: at hand, never fetched.
package struct OwnKeys: VerificationKeys {
  private let keys: @Sendable () -> JSONWebKeySet?

  /// - Parameter keys: the keys as they are now, nil while they are not known; called for each verification, so it must be
  ///   cheap.
  package init(_ keys: @escaping @Sendable () -> JSONWebKeySet?) {
    self.keys = keys
  }

  package var current: JSONWebKeySet? { keys() }

  package func fetchMissing(_ keyID: String) -> Bool { false }
}
