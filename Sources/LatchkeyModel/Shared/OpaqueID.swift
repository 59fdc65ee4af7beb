/// A random identifier of 128 bits, written as 22 characters of base64url: it says nothing about what it names,
/// cannot be guessed and is never reused.
///
/// In another cell than 0 the first 16 of its bits are the cell's number, and its text is that number, a dot and the other
/// 112 bits. So what one cell stores stands together in every index, and cells can be told apart without asking any.
///
/// Each kind of thing has its own conforming type, so that a session's id cannot be passed where a subject's belongs.
package protocol OpaqueID: Sendable, Hashable, Comparable, LosslessStringConvertible {
  /// The 16 bytes.
  var value: OpaqueIDValue { get }

  init(value: OpaqueIDValue)
}

extension OpaqueID {
  /// A new id. `random` must be the machine's secure source.
  package init(from random: RandomSource) {
    self.init(value: OpaqueIDValue(from: random))
  }

  /// Nil unless there are exactly 16 bytes, of an id of this cell: bytes alone do not say whether they name one.
  package init?(bytes: [UInt8], in cell: Cell) {
    guard let value = OpaqueIDValue(bytes: bytes, in: cell) else { return nil }
    self.init(value: value)
  }

  /// Nil unless the text is the one that `description` gives for some id.
  package init?(_ text: String) {
    let (cell, rest) = Cell.read(text)
    guard rest.utf8.count == OpaqueIDValue.textLength(in: cell), let bytes = Base64URL.decode(rest) else { return nil }
    self.init(bytes: cell == .first ? bytes : cell.bytes + bytes, in: cell)
  }

  package var bytes: [UInt8] { value.bytes }

  /// Where what it names is stored.
  package var cell: Cell { value.cell }

  package var description: String {
    cell == .first ? Base64URL.encode(value.bytes) : cell.prefix + Base64URL.encode(Array(value.bytes[2...]))
  }

  package static func < (left: Self, right: Self) -> Bool { left.value < right.value }
}

/// The 16 bytes of an `OpaqueID`, held without allocation.
package struct OpaqueIDValue: Sendable, Hashable, Comparable {
  /// Characters of the base64url form, behind the cell's prefix.
  package static func textLength(in cell: Cell) -> Int { cell == .first ? 22 : 19 }

  private let high: UInt64
  private let low: UInt64
  /// The first two bytes, unless it is 0: ids of cell 0 begin with any.
  package let cell: Cell

  package init?(bytes: [UInt8], in cell: Cell) {
    guard bytes.count == 16, cell == .first || Array(bytes[..<2]) == cell.bytes else { return nil }
    self.init(whole: bytes, in: cell)
  }

  package init(from random: RandomSource) {
    let bytes = random.identifier()
    precondition(bytes.count == 16, "a random source gives as many bytes as it was asked for")
    self.init(whole: random.cell == .first ? Self.startingAsWord(bytes) : bytes, in: random.cell)
  }

  private init(whole bytes: [UInt8], in cell: Cell) {
    high = bytes[0..<8].reduce(0) { $0 << 8 | UInt64($1) }
    low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
    self.cell = cell
  }

  /// The bytes with another first bit where their base64url form would begin with a hyphen: every command line takes such
  /// a word for an option. It costs a sixty-fourth of a bit.
  package static func startingAsWord(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    if let first = bytes.first, first >> 2 == 62 { bytes[0] = first & 0x7f }
    return bytes
  }

  package var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(16)
    for shift in stride(from: UInt64(56), through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: high >> shift)) }
    for shift in stride(from: UInt64(56), through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: low >> shift)) }
    return bytes
  }

  package static func < (left: OpaqueIDValue, right: OpaqueIDValue) -> Bool {
    (left.high, left.low) < (right.high, right.low)
  }
}
