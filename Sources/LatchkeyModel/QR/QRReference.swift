/// What the QR code points with: 128 random bits, unrelated to the poll secret. It opens nothing by itself; storage
/// keeps its digest only.
package struct QRReference: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  package static let byteCount = 16

  package let bytes: [UInt8]
  /// Where what it points to is stored.
  package let cell: Cell

  package init(from random: RandomSource) {
    bytes = random.bytes(QRReference.byteCount)
    cell = random.cell
    precondition(bytes.count == QRReference.byteCount, "a random source gives as many bytes as it was asked for")
  }

  /// Nil for anything but the 22 characters of a reference, behind the prefix of its cell.
  package init?(text: some StringProtocol) {
    let (cell, rest) = Cell.read(text)
    guard rest.utf8.count == 22, let bytes = Base64URL.decode(rest) else { return nil }
    self.bytes = bytes
    self.cell = cell
  }

  package var text: String { cell.prefix + Base64URL.encode(bytes) }
  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
