import Cryptography

/// An OpenID provider whose ID tokens sign people in.
package struct OpenIDProvider: Sendable {
  /// What people recognise it by.
  package var name: String
  /// Exactly what tokens say in `iss`.
  package var issuer: String
  /// The installation's own names at the provider: what tokens must be for.
  package var clientIDs: [String]
  package var algorithms: [SignatureAlgorithm]
  /// Where its keys are; nil to ask its discovery document (OpenID Connect Discovery section 4).
  package var keysAddress: String?
  /// A file of certificates in PEM that its server's must chain to; nil for those of the system.
  package var authoritiesFile: String?

  package init(
    name: String,
    issuer: String,
    clientIDs: [String],
    algorithms: [SignatureAlgorithm] = SignatureAlgorithm.allCases,
    keysAddress: String? = nil,
    authoritiesFile: String? = nil
  ) {
    self.name = name
    self.issuer = issuer
    self.clientIDs = clientIDs
    self.algorithms = algorithms
    self.keysAddress = keysAddress
    self.authoritiesFile = authoritiesFile
  }

  var discoveryAddress: String {
    (issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer) + "/.well-known/openid-configuration"
  }

  /// Whether keys may be fetched from there: over TLS, or from this machine itself.
  static func isAcceptable(_ address: String) -> Bool {
    guard address.utf8.count <= 2048, address.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return false }
    if address.hasPrefix("https://") { return address.utf8.count > "https://".utf8.count }
    return ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"].contains { address.hasPrefix($0) }
  }
}
