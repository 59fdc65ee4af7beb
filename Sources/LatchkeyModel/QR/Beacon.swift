/// What the initiating device broadcasts over radio while its code lives (S10). A phone that heard it is nearby;
/// whoever photographed the code has not heard it.
package struct Beacon: Sendable, Hashable {
  /// What fits into a Bluetooth advertisement beside a service id.
  package static let byteCount = 8

  private let bytes: [UInt8]

  /// Derived from the SHA-256 of what the initiating side knows and the code does not tell, so that nothing is stored.
  package init(derivedFrom digest: Digest256) {
    bytes = Array(digest.bytes.prefix(Self.byteCount))
  }

  /// What is hashed for `init(derivedFrom:)`.
  package static func preimage(pollSecret: Digest256, challenge: PKCEChallenge) -> [UInt8] {
    Array("latchkey qr beacon 1".utf8) + pollSecret.bytes + challenge.digest.bytes
  }

  /// Nil for anything but the 11 characters of a beacon.
  package init?(text: String) {
    guard text.utf8.count == 11, let bytes = Base64URL.decode(text) else { return nil }
    self.bytes = bytes
  }

  package var text: String { Base64URL.encode(bytes) }
}
