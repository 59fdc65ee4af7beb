/// The S256 code challenge of RFC 7636: the digest of a verifier that the initiating device keeps until it redeems.
package struct PKCEChallenge: Sendable, Equatable {
  package let digest: Digest256

  package init(digest: Digest256) {
    self.digest = digest
  }

  /// Nil for anything but 43 characters of base64url.
  package init?(text: String) {
    guard text.utf8.count == 43, let bytes = Base64URL.decode(text), let digest = Digest256(bytes) else { return nil }
    self.digest = digest
  }

  package var text: String { Base64URL.encode(digest.bytes) }

  /// Whether `verifier` hashes to this challenge; takes the same time either way.
  package func isMet(by verifier: Digest256) -> Bool {
    digest == verifier
  }

  /// Whether `text` has the form of a verifier: 43 to 128 unreserved characters (RFC 7636 section 4.1).
  package static func isVerifier(_ text: String) -> Bool {
    let bytes = text.utf8
    return (43...128).contains(bytes.count)
      && bytes.allSatisfy { byte in
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
          || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "-._~".utf8.contains(byte)
      }
  }
}
