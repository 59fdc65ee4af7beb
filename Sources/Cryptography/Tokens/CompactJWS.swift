import JSON
import LatchkeyModel

/// A signed token in its compact form (RFC 7515 section 3.1): header, payload and signature.
///
/// Reading one does not believe it: ``verifiedPayload(with:)`` is the only way to the payload (R4).
package struct CompactJWS: Sendable {
  package let header: JSONValue
  private let signingInput: [UInt8]
  private let encodedPayload: ArraySlice<UInt8>
  private let signature: [UInt8]

  /// Splits and decodes the header only. Errors: ``TokenError/malformed``.
  ///
  /// - Parameter signatureBytes: how long a signature may be; ours are ES256.
  package init(
    parsing token: String, signatureBytes: ClosedRange<Int> = ECDSASignature.rawByteCount...ECDSASignature.rawByteCount
  ) throws(TokenError) {
    let bytes = Array(token.utf8)
    guard bytes.count <= Limits.tokenBytes else { throw .malformed }
    let parts = bytes.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
    guard parts.count == 3, let header = Base64URL.decode(Array(parts[0])),
      let signature = Base64URL.decode(Array(parts[2])), signatureBytes.contains(signature.count),
      let json = try? JSONValue(parsing: header), json.members != nil
    else { throw .malformed }
    self.header = json
    self.signature = signature
    encodedPayload = parts[1]
    signingInput = Array(bytes[..<parts[1].endIndex])
  }

  /// Makes the compact form. `header` must say `ES256`, as it does everywhere in this module.
  package static func sign(
    header: JSONValue,
    payload: JSONValue,
    with key: P256PrivateKey
  ) throws(CryptographyError) -> String {
    try sign(encodedHeader: Base64URL.encode(header.encoded()), payload: payload, with: key)
  }

  /// The same for a header that is encoded once and used for every token.
  static func sign(
    encodedHeader: String,
    payload: JSONValue,
    with key: P256PrivateKey
  ) throws(CryptographyError) -> String {
    let input = "\(encodedHeader).\(Base64URL.encode(payload.encoded()))"
    return "\(input).\(Base64URL.encode(try key.sign(Array(input.utf8))))"
  }

  /// Refuses a header that asks for anything but ES256 with a key of ours (R5, R6; RFC 8725 sections 3.1 and 3.10).
  /// `allowingKey` lets a `jwk` pass, for proofs that carry their own key (RFC 9449 section 4.2).
  package func checkHeader(type: String, allowingKey: Bool = false) throws(TokenError) {
    guard header["alg"]?.string == "ES256" else { throw .unacceptableHeader("alg") }
    for name in ["x5c", "x5t", "x5t#S256"] where header[name] != nil { throw .unacceptableHeader(name) }
    try checkForeignHeader(type: type, allowingKey: allowingKey)
  }

  /// The same for somebody else's token, whose algorithm is another list's matter and whose key may be named by its
  /// certificate as well. Without a `typ` it passes where there is none for such tokens.
  package func checkForeignHeader(
    type: String, isTypeOptional: Bool = false, allowingKey: Bool = false
  ) throws(TokenError) {
    for name in ["jku", "x5u", "crit", "b64", "zip"] where header[name] != nil { throw .unacceptableHeader(name) }
    if !allowingKey, header["jwk"] != nil { throw .unacceptableHeader("jwk") }
    if isTypeOptional, header["typ"] == nil { return }
    // RFC 7515 section 4.1.9: media types compare without case, "application/" may be left out.
    guard var found = header["typ"]?.string?.lowercased() else { throw .wrongType }
    if found.hasPrefix("application/") { found.removeFirst("application/".count) }
    guard found == type else { throw .wrongType }
  }

  /// What the payload says of itself, believed by nobody: to find the key that would verify it.
  package func claimed(_ name: String) -> String? { claimedPayload?[name]?.string }

  /// The same, whole.
  var claimedPayload: JSONValue? { Base64URL.decode(Array(encodedPayload)).flatMap { try? JSONValue(parsing: $0) } }

  /// The payload, once the signature holds. Errors: ``TokenError/badSignature``, ``TokenError/malformed``.
  package func verifiedPayload(with key: some VerificationKey) throws(TokenError) -> JSONValue {
    guard key.verify(signature: signature, message: signingInput) else { throw .badSignature }
    guard let bytes = Base64URL.decode(Array(encodedPayload)), let payload = try? JSONValue(parsing: bytes),
      payload.members != nil
    else { throw .malformed }
    return payload
  }
}
