/// What the QR code points with: 128 random bits, unrelated to the poll secret. It opens nothing by itself; storage
/// keeps its digest only.
package struct QRReference: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  package static let byteCount = 16

  package let bytes: [UInt8]

  package init(from random: RandomSource) {
    bytes = random.bytes(QRReference.byteCount)
    precondition(bytes.count == QRReference.byteCount, "a random source gives as many bytes as it was asked for")
  }

  /// Nil for anything but the 22 characters of a reference.
  package init?(text: some StringProtocol) {
    guard text.utf8.count == 22, let bytes = Base64URL.decode(text) else { return nil }
    self.bytes = bytes
  }

  package var text: String { Base64URL.encode(bytes) }
  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
