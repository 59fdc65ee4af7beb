/// Names a QR session for good: in storage, in the audit log and towards identity. Not a secret: nothing opens with it.
///
/// The first two bytes are the number of the cell that has the session, the next two that of the instance that issued it.
package struct QRSessionID: Sendable, Hashable, CustomStringConvertible {
  package static let randomByteCount = 12

  package let high: UInt64
  package let low: UInt64

  /// 12 random bytes after the cell, which is the source's, and the instance: 96 bits never meet, nor do 64 of them behind a
  /// beginning that neighbours share.
  package init(instance: UInt16, from random: RandomSource) {
    let randomness = random.bytes(QRSessionID.randomByteCount, sharing: 4)
    precondition(
      randomness.count == QRSessionID.randomByteCount,
      "a random source gives as many bytes as it was asked for"
    )
    high = randomness[0..<4].reduce(Self.start(instance, random.cell) >> 32) { $0 << 8 | UInt64($1) }
    low = randomness[4..<12].reduce(0) { $0 << 8 | UInt64($1) }
  }

  private init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  private static func start(_ instance: UInt16, _ cell: Cell) -> UInt64 {
    UInt64(cell.number) << 48 | UInt64(instance) << 32
  }

  /// What comes before each id of an instance, and after each of those before it; nil where nothing does.
  package static func last(before instance: UInt16, in cell: Cell) -> QRSessionID? {
    let start = start(instance, cell)
    return start > 0 ? QRSessionID(high: start - 1, low: .max) : nil
  }

  /// Nil unless there are exactly 16 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == 16 else { return nil }
    high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    low = bytes.dropFirst(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  package init?(text: String) {
    guard text.utf8.count == 22, let bytes = Base64URL.decode(text) else { return nil }
    self.init(bytes: bytes)
  }

  package var cell: Cell { Cell(UInt16(high >> 48)) }

  package var instance: UInt16 { UInt16(truncatingIfNeeded: high >> 32) }

  package var bytes: [UInt8] {
    [high, low].flatMap { word in
      stride(from: UInt64(56), through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> $0) }
    }
  }

  package var description: String { Base64URL.encode(bytes) }
}
