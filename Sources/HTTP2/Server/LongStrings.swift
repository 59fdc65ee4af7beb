/// Takes out of a header block the strings that nghttp2 decodes no further, those of over 64 KiB, so that whoever sends one is
/// refused that request and keeps the connection.
///
/// The decoder stays in step, since something takes the string's place. A field that is larger than the table empties it and is
/// not added (RFC 7541 §4.4); with `a` times the table's size its field does the same. The request is refused all the same: its
/// list is over the limit.
///
/// Only a block of several frames can hold such a string, so only those are gone through.
struct LongStrings {
  /// What nghttp2 takes, as it is on the wire.
  static let nghttp2Takes = 64 * 1024

  /// What takes the place (RFC 7541 §5.2): as many bytes as the table may have, 127 + 1 + 31 · 128, without Huffman's code.
  private static let substitute =
    [0x7f, 0x81, 0x1f] + [UInt8](repeating: UInt8(ascii: "a"), count: HeaderDecoder.tableBytes)

  /// Of a string that stays. Longer ones are larger than the table.
  private let longest: Int
  /// The strings that the field still has.
  private var strings = 0
  /// Bytes of a string that are still to come.
  private var left = 0
  /// Whether they are taken out.
  private var isTakingOut = false
  /// The bytes of a number that has begun and not ended. A string's length is held back until it is known.
  private var number: [UInt8] = []
  private var value = 0
  /// Whether any string was taken out.
  private(set) var hasTakenOut = false
  /// Bytes of the strings of the field that has begun and not ended: the decoder holds them.
  private(set) var heldBytes = 0

  init(longest: Int = Self.nghttp2Takes) { self.longest = longest }

  /// Whether nothing has begun that is to go on.
  private var isBetweenFields: Bool { strings == 0 && left == 0 && number.isEmpty }

  /// What the decoder gets for a piece of the block. Nil for what is no header block.
  mutating func without(_ piece: UnsafeRawBufferPointer, isLast: Bool) -> [UInt8]? {
    var kept: [UInt8] = []
    kept.reserveCapacity(piece.count)
    var index = 0
    while index < piece.count {
      if left > 0 {
        // Never beyond the piece.
        let end = index + min(left, piece.count - index)
        if !isTakingOut {
          unsafe kept.append(contentsOf: piece[index..<end])
          heldBytes += end - index
        }
        left -= end - index
        index = end
        if left == 0 { isTakingOut = false }
      } else {
        // In bounds by the loop's condition.
        guard unsafe take(piece[index], &kept) else { return nil }
        index += 1
      }
    }
    return isLast && !isBetweenFields ? nil : kept
  }

  /// A byte of a number: RFC 7541 §5.1. False when that becomes too large to be one.
  private mutating func take(_ byte: UInt8, _ kept: inout [UInt8]) -> Bool {
    guard !number.isEmpty else {
      let mask = strings > 0 ? 0x7f : Self.mask(of: byte)
      value = Int(byte & mask)
      if byte & mask != mask {
        kept.append(byte)
        end(first: byte)
      } else {
        number.append(byte)
      }
      return true
    }
    let shift = 7 * (number.count - 1)
    guard shift <= 28 else { return false }
    value += Int(byte & 0x7f) << shift
    number.append(byte)
    guard byte & 0x80 == 0 else { return true }
    if strings > 0, value > longest {
      kept += Self.substitute
      (hasTakenOut, isTakingOut) = (true, true)
    } else {
      kept += number
    }
    end(first: number[0])
    number.removeAll(keepingCapacity: true)
    return true
  }

  /// The number has ended that began with `first`: it is a string's length, or begins a field.
  private mutating func end(first: UInt8) {
    if strings > 0 {
      strings -= 1
      left = value
    } else {
      strings = Self.strings(after: first, value)
      heldBytes = 0
    }
  }

  /// Which bits of a field's first byte are the number's: RFC 7541 §6.
  private static func mask(of first: UInt8) -> UInt8 {
    switch first {
    case 0x80...: 0x7f
    case 0x40...: 0x3f
    case 0x20...: 0x1f
    default: 0x0f
    }
  }

  /// How many strings follow a field's number: none where the table has all of it, or its size is set.
  private static func strings(after first: UInt8, _ value: Int) -> Int {
    switch first {
    case 0x80..., 0x20..<0x40: 0
    default: value == 0 ? 2 : 1
    }
  }
}
