package import Cryptography

/// Where the keys come from that verify access tokens.
package protocol VerificationKeys: Sendable {
  /// The keys known now; nil before any are.
  var current: JSONWebKeySet? { get }

  /// Called for a token of a key that `current` does not have. Answers whether newer keys are on their way, so that a
  /// later try can succeed: whoever is told that a token does not hold throws a session away.
  func fetchMissing(_ keyID: String) -> Bool
}
