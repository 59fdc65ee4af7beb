import JSON
import LatchkeyModel

/// The public keys that verify tokens, by `kid` (RFC 7517 section 5).
package struct JSONWebKeySet: Sendable, Equatable {
  /// In the order in which they are published: the signing key first, then those that only verify.
  package private(set) var keys: [Key]

  package struct Key: Sendable, Equatable {
    package let id: String
    package let publicKey: P256PublicKey

    package init(id: String, publicKey: P256PublicKey) {
      self.id = id
      self.publicKey = publicKey
    }
  }

  package init(keys: [Key] = []) {
    self.keys = keys
  }

  /// Keys named by their thumbprints.
  package init(_ publicKeys: [P256PublicKey]) {
    keys = publicKeys.map { Key(id: $0.thumbprint, publicKey: $0) }
  }

  package subscript(id: String) -> P256PublicKey? {
    for key in keys where key.id == id { return key.publicKey }
    return nil
  }

  /// The JWK Set document.
  package var json: JSONValue {
    ["keys": .array(keys.map { $0.publicKey.jwk(id: $0.id) })]
  }

  /// Reads a JWK Set. Keys of a kind that we do not use are skipped, as RFC 7517 section 5 asks; a broken key of our
  /// kind, two keys of one name, or a set without a usable key is an error.
  package init(parsing bytes: [UInt8]) throws(CryptographyError) {
    guard let document = try? JSONValue(parsing: bytes), let entries = document["keys"]?.array else {
      throw .invalidKey("not a JWK Set")
    }
    guard entries.count <= Limits.keysInSet else { throw .invalidKey("the JWK Set has too many keys") }
    keys = []
    for entry in entries where Self.isForSignatures(entry) {
      guard let id = entry["kid"]?.string, !id.isEmpty else { throw .invalidKey("a key has no kid") }
      guard self[id] == nil else { throw .invalidKey("two keys have one kid") }
      keys.append(Key(id: id, publicKey: try P256PublicKey(jwk: entry)))
    }
    guard !keys.isEmpty else { throw .invalidKey("the JWK Set has no ES256 key") }
  }

  private static func isForSignatures(_ entry: JSONValue) -> Bool {
    entry["kty"]?.string == "EC" && entry["crv"]?.string == "P-256"
      && (entry["use"] == nil || entry["use"]?.string == "sig")
      && (entry["alg"] == nil || entry["alg"]?.string == "ES256")
  }
}
