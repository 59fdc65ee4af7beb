/// A random identifier of 128 bits, written as 22 characters of base64url: it says nothing about what it names,
/// cannot be guessed and is never reused.
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

  /// Nil unless there are exactly 16 bytes.
  package init?(bytes: [UInt8]) {
    guard let value = OpaqueIDValue(bytes: bytes) else { return nil }
    self.init(value: value)
  }

  /// Nil unless the text is the one that `description` gives for some id.
  package init?(_ text: String) {
    guard text.utf8.count == OpaqueIDValue.textLength, let bytes = Base64URL.decode(text) else { return nil }
    self.init(bytes: bytes)
  }

  package var bytes: [UInt8] { value.bytes }

  package var description: String { Base64URL.encode(value.bytes) }

  package static func < (left: Self, right: Self) -> Bool { left.value < right.value }
}

/// The 16 bytes of an `OpaqueID`, held without allocation.
package struct OpaqueIDValue: Sendable, Hashable, Comparable {
  /// Characters of the base64url form.
  package static let textLength = 22

  private let high: UInt64
  private let low: UInt64

  package init?(bytes: [UInt8]) {
    guard bytes.count == 16 else { return nil }
    high = bytes[0..<8].reduce(0) { $0 << 8 | UInt64($1) }
    low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
  }

  package init(from random: RandomSource) {
    let bytes = random.identifier()
    precondition(bytes.count == 16, "a random source gives as many bytes as it was asked for")
    high = Self.startingAsWord(bytes)[0..<8].reduce(0) { $0 << 8 | UInt64($1) }
    low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
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
