internal import NIOCore

/// How much has come of a TLS record that has not ended: OpenSSL keeps it, and says nothing of it.
///
/// Source: RFC 8446 §5.1.
struct UnfinishedRecord {
  private static let headerBytes = 5

  /// Bytes of it, with its header; 0 between two records.
  private(set) var bytes = 0
  /// What is to come of it, once its header is whole.
  private var left = 0
  /// The last two bytes of what came of the header.
  private var length: UInt16 = 0

  /// Takes the peer's next bytes. Costs a look for each record.
  mutating func receive(_ ciphertext: ByteBuffer) {
    // Mostly one that is whole.
    if bytes == 0, let length = ciphertext.getInteger(at: ciphertext.readerIndex + 3, as: UInt16.self),
      ciphertext.readableBytes == Self.headerBytes + Int(length)
    {
      return
    }
    var rest = ciphertext.readableBytesView
    while let next = rest.first {
      if bytes < Self.headerBytes {
        rest.removeFirst()
        bytes += 1
        length = length << 8 | UInt16(next)
        if bytes == Self.headerBytes { left = Int(length) }
      } else {
        let count = min(left, rest.count)
        rest.removeFirst(count)
        bytes += count
        left -= count
      }
      if bytes >= Self.headerBytes, left == 0 { bytes = 0 }
    }
  }
}
