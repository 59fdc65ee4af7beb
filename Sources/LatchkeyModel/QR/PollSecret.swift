/// The device code of RFC 8628: 256 bits, at least 160 of them random, that only the initiating device holds. Polls
/// present it; the QR code never contains it (S2), and storage keeps its digest only.
package struct PollSecret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package static let byteCount = 32

  package let bytes: [UInt8]
  /// Where it was drawn.
  package let cell: Cell

  package init(from random: RandomSource) {
    bytes = random.bytes(PollSecret.byteCount)
    cell = random.cell
    precondition(bytes.count == PollSecret.byteCount, "a random source gives as many bytes as it was asked for")
  }

  /// Nil for anything but 32 bytes, all or most of which are random.
  package init?(bytes: [UInt8], in cell: Cell = .first) {
    guard bytes.count == PollSecret.byteCount else { return nil }
    self.bytes = bytes
    self.cell = cell
  }

  /// Nil for anything but the 43 characters of a poll secret, behind the prefix of its cell.
  package init?(text: String) {
    let (cell, rest) = Cell.read(text)
    guard rest.utf8.count == 43, let bytes = Base64URL.decode(rest) else { return nil }
    self.init(bytes: bytes, in: cell)
  }

  package var text: String { cell.prefix + Base64URL.encode(bytes) }
  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
