package import Cryptography

/// The keys of the identity service itself: always at hand, never fetched.
package struct OwnKeys: VerificationKeys {
  private let keys: @Sendable () -> JSONWebKeySet

  /// - Parameter keys: the keys as they are now; called for each verification, so it must be cheap.
  package init(_ keys: @escaping @Sendable () -> JSONWebKeySet) {
    self.keys = keys
  }

  package var current: JSONWebKeySet? { keys() }

  package func fetchMissing(_ keyID: String) -> Bool { false }
}
