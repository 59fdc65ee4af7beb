/// Base64 with the URL alphabet and without padding (RFC 4648 section 5): how bytes appear in tokens, keys and codes.
package enum Base64URL {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

  private static let values: InlineArray<256, UInt8> = {
    var table = InlineArray<256, UInt8>(repeating: 0xFF)
    for (value, character) in alphabet.enumerated() { table[Int(character)] = UInt8(value) }
    return table
  }()

  package static func encode(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count * 4 + 2) / 3)
    var index = 0
    while index < bytes.count {
      let left = bytes.count - index
      let first = UInt32(bytes[index])
      let second = left > 1 ? UInt32(bytes[index + 1]) : 0
      let third = left > 2 ? UInt32(bytes[index + 2]) : 0
      let group = first << 16 | second << 8 | third
      text.append(alphabet[Int(group >> 18 & 63)])
      text.append(alphabet[Int(group >> 12 & 63)])
      if left > 1 { text.append(alphabet[Int(group >> 6 & 63)]) }
      if left > 2 { text.append(alphabet[Int(group & 63)]) }
      index += 3
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// Nil for any character outside the alphabet, padding, an impossible length, or unused bits that are not zero:
  /// each value has exactly one text, so a token cannot be altered and still decode to the same bytes.
  package static func decode(_ text: some StringProtocol) -> [UInt8]? {
    decode(Array(text.utf8))
  }

  package static func decode(_ text: [UInt8]) -> [UInt8]? {
    guard text.count % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count * 3 / 4)
    var accumulator: UInt32 = 0
    var bits = 0
    for character in text {
      let value = values[Int(character)]
      guard value != 0xFF else { return nil }
      accumulator = accumulator << 6 | UInt32(value)
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: accumulator >> UInt32(bits)))
        accumulator &= (1 << UInt32(bits)) - 1
      }
    }
    guard accumulator == 0 else { return nil }
    return bytes
  }

  /// The 32 bytes that 43 characters stand for, with nothing allocated. Nil for any other text, as `decode` has it.
  package static func decode32(_ text: Span<UInt8>) -> InlineArray<32, UInt8>? {
    guard text.count == 43 else { return nil }
    var bytes = InlineArray<32, UInt8>(repeating: 0)
    // Takes up what is no value of six bits.
    var seen: UInt32 = 0
    for group in 0..<10 {
      let first = UInt32(values[Int(text[group * 4])])
      let second = UInt32(values[Int(text[group * 4 + 1])])
      let third = UInt32(values[Int(text[group * 4 + 2])])
      let fourth = UInt32(values[Int(text[group * 4 + 3])])
      seen |= first | second | third | fourth
      let three = first << 18 | second << 12 | third << 6 | fourth
      bytes[group * 3] = UInt8(truncatingIfNeeded: three >> 16)
      bytes[group * 3 + 1] = UInt8(truncatingIfNeeded: three >> 8)
      bytes[group * 3 + 2] = UInt8(truncatingIfNeeded: three)
    }
    let first = UInt32(values[Int(text[40])])
    let second = UInt32(values[Int(text[41])])
    let third = UInt32(values[Int(text[42])])
    seen |= first | second | third
    let last = first << 12 | second << 6 | third
    bytes[30] = UInt8(truncatingIfNeeded: last >> 10)
    bytes[31] = UInt8(truncatingIfNeeded: last >> 2)
    return seen < 64 && last & 3 == 0 ? bytes : nil
  }
}
