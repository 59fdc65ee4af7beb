/// Base64 with the URL alphabet and without padding (RFC 4648 section 5): how bytes appear in tokens, keys and codes.
package enum Base64URL {
  private static let alphabet: InlineArray<64, UInt8> = {
    var table = InlineArray<64, UInt8>(repeating: 0)
    let characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8
    for (value, character) in characters.enumerated() { table[value] = character }
    return table
  }()

  private static let values: InlineArray<256, UInt8> = {
    var table = InlineArray<256, UInt8>(repeating: 0xFF)
    for value in alphabet.indices { table[Int(alphabet[value])] = UInt8(value) }
    return table
  }()

  package static func encode(_ bytes: [UInt8]) -> String {
    let count = (bytes.count * 4 + 2) / 3
    // Every character that is counted is written before the string has it.
    return unsafe String(unsafeUninitializedCapacity: count) { text in
      let alphabet = alphabet
      var (start, index) = (0, 0)
      while bytes.count - start >= 3 {
        let group = Int(bytes[start]) << 16 | Int(bytes[start + 1]) << 8 | Int(bytes[start + 2])
        unsafe text[index] = alphabet[group >> 18]
        unsafe text[index + 1] = alphabet[group >> 12 & 63]
        unsafe text[index + 2] = alphabet[group >> 6 & 63]
        unsafe text[index + 3] = alphabet[group & 63]
        (start, index) = (start + 3, index + 4)
      }
      guard start < bytes.count else { return count }
      let second = start + 1 < bytes.count ? Int(bytes[start + 1]) : 0
      let group = Int(bytes[start]) << 8 | second
      unsafe text[index] = alphabet[group >> 10]
      unsafe text[index + 1] = alphabet[group >> 4 & 63]
      if start + 1 < bytes.count { unsafe text[index + 2] = alphabet[group << 2 & 63] }
      return count
    }
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
