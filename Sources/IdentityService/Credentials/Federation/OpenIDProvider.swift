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
    let parts = address.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
    guard parts.count >= 3, parts[1].isEmpty else { return false }
    // Who is in front of an "@" is no host, however much it looks like one (RFC 3986 section 3.2.1).
    let host = parts[2]
    guard !host.isEmpty, !host.contains(where: { "@\\?#".contains($0) }) else { return false }
    if parts[0] == "https:" { return true }
    guard parts[0] == "http:", let colon = host.lastIndex(of: ":") else { return false }
    let port = host[host.index(after: colon)...]
    guard !port.isEmpty, port.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      return false
    }
    return ["127.0.0.1", "localhost", "[::1]"].contains(String(host[..<colon]))
  }
}
