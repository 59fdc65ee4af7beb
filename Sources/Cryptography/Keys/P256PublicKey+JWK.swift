import JSON
import LatchkeyModel

extension P256PublicKey {
  /// The key as a JWK (RFC 7517, RFC 7518 section 6.2).
  package func jwk(id: String) -> JSONValue {
    [
      "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": .string(id),
      "x": .string(Base64URL.encode(x)), "y": .string(Base64URL.encode(y)),
    ]
  }

  /// Reads a public JWK. Errors: ``CryptographyError/invalidKey(_:)``, also for one that holds a private key: whoever
  /// sends that has just given it away.
  package init(jwk: JSONValue) throws(CryptographyError) {
    guard jwk["kty"]?.string == "EC", jwk["crv"]?.string == "P-256" else {
      throw .invalidKey("kty must be EC and crv P-256")
    }
    guard jwk["d"] == nil else { throw .invalidKey("a private key where a public one belongs") }
    try self.init(jwkX: jwk["x"]?.string ?? "", y: jwk["y"]?.string ?? "")
  }

  /// Reads the coordinates as they stand in a JWK: base64url of 32 bytes each.
  package init(jwkX x: String, y: String) throws(CryptographyError) {
    guard let x = Base64URL.decode(x), let y = Base64URL.decode(y) else {
      throw .invalidKey("a coordinate is not base64url")
    }
    try self.init(x: x, y: y)
  }
}
