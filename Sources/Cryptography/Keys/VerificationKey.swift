/// A public key that verifies signatures by one algorithm.
package protocol VerificationKey: Sendable {
  var algorithm: SignatureAlgorithm { get }

  /// Whether `signature`, in the algorithm's form of RFC 7518, is this key's over `message`.
  func verify(signature: [UInt8], message: [UInt8]) -> Bool
}

extension P256PublicKey: VerificationKey {
  package var algorithm: SignatureAlgorithm { .es256 }
}
