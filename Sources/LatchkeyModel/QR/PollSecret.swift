/// The device code of RFC 8628: 256 bits, at least 160 of them random, that only the initiating device holds. Polls
/// present it; the QR code never contains it (S2), and storage keeps its digest only.
package struct PollSecret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package static let byteCount = 32

  package let bytes: [UInt8]

  package init(from random: RandomSource) {
    bytes = random.bytes(PollSecret.byteCount)
    precondition(bytes.count == PollSecret.byteCount, "a random source gives as many bytes as it was asked for")
  }

  /// Nil for anything but 32 bytes, all or most of which are random.
  package init?(bytes: [UInt8]) {
    guard bytes.count == PollSecret.byteCount else { return nil }
    self.bytes = bytes
  }

  /// Nil for anything but the 43 characters of a poll secret.
  package init?(text: String) {
    guard text.utf8.count == 43, let bytes = Base64URL.decode(text) else { return nil }
    self.bytes = bytes
  }

  package var text: String { Base64URL.encode(bytes) }
  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
