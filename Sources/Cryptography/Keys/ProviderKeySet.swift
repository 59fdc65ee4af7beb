import JSON

/// The public keys of an OpenID provider (RFC 7517 section 5).
package struct ProviderKeySet: Sendable {
  private struct Entry: Sendable {
    let id: String?
    let key: any VerificationKey
  }

  private let entries: [Entry]

  /// Reads a JWK Set. Keys that are of another kind, for another use or broken are skipped, because a provider's one odd
  /// key must not lock everybody out; a set without a usable key is an error.
  package init(parsing bytes: [UInt8]) throws(CryptographyError) {
    guard let document = try? JSONValue(parsing: bytes), let keys = document["keys"]?.array else {
      throw .invalidKey("not a JWK Set")
    }
    guard keys.count <= Limits.keysInSet else { throw .invalidKey("the JWK Set has too many keys") }
    entries = keys.compactMap { jwk in
      guard let key = Self.key(jwk) else { return nil }
      return Entry(id: jwk["kid"]?.string, key: key)
    }
    guard !entries.isEmpty else { throw .invalidKey("the JWK Set has no RS256 or ES256 key") }
  }

  /// The key that a token names; without a name, the one key of the algorithm, if there is just one.
  package func key(_ id: String?, _ algorithm: SignatureAlgorithm) -> (any VerificationKey)? {
    let fitting = entries.filter { $0.key.algorithm == algorithm }
    guard let id else { return fitting.count == 1 ? fitting[0].key : nil }
    return fitting.first { $0.id == id }?.key
  }

  private static func key(_ jwk: JSONValue) -> (any VerificationKey)? {
    if let use = jwk["use"], use.string != "sig" { return nil }
    let key: (any VerificationKey)?
    switch jwk["kty"]?.string {
    case "RSA": key = try? RSAPublicKey(jwk: jwk)
    case "EC": key = try? P256PublicKey(jwk: jwk)
    default: key = nil
    }
    guard let key else { return nil }
    if let algorithm = jwk["alg"], algorithm.string != key.algorithm.rawValue { return nil }
    return key
  }
}
