/// How a token of somebody else is signed. Nothing else is accepted (R5).
package enum SignatureAlgorithm: String, Sendable, CaseIterable {
  /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518 section 3.3).
  case rs256 = "RS256"
  /// ECDSA on P-256 with SHA-256 (RFC 7518 section 3.4).
  case es256 = "ES256"
}
