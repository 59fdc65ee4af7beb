/// The coding of metadata values whose name ends in `-bin`: standard base64, padded or not.
///
/// Source: gRPC over HTTP/2, "Binary-Header"; RFC 4648 §4.
package enum BinaryMetadata {
  /// Encodes without padding, as implementations must by default.
  package static func encode(_ bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity((bytes.count * 4 + 2) / 3)
    var bits: UInt32 = 0
    var count = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      count += 8
      while count >= 6 {
        count -= 6
        result.append(letter(UInt8(bits >> UInt32(count) & 63)))
      }
      bits &= (1 << UInt32(count)) - 1
    }
    if count > 0 { result.append(letter(UInt8(bits << UInt32(6 - count) & 63))) }
    return result
  }

  /// Decodes one value. Nil for letters outside the alphabet, wrong padding, an impossible length or bits left over
  /// in the last letter: two encodings never mean the same bytes, save for the padding.
  package static func decode(_ value: some BidirectionalCollection<UInt8>) -> [UInt8]? {
    var letters = value[...]
    if letters.count % 4 == 0 {
      for _ in 0..<2 where letters.last == UInt8(ascii: "=") { letters.removeLast() }
    }
    guard letters.count % 4 != 1 else { return nil }
    var result: [UInt8] = []
    result.reserveCapacity(letters.count * 3 / 4)
    var bits: UInt32 = 0
    var count = 0
    for letter in letters {
      guard let value = sextet(letter) else { return nil }
      bits = bits << 6 | UInt32(value)
      count += 6
      if count >= 8 {
        count -= 8
        result.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        bits &= (1 << UInt32(count)) - 1
      }
    }
    return bits == 0 ? result : nil
  }

  /// Decodes the values of one field, which may be joined by commas. Nil when one of them does not decode.
  package static func decodeList(_ value: some BidirectionalCollection<UInt8>) -> [[UInt8]]? {
    var values: [[UInt8]] = []
    for part in value.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
      let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
      var part = part.drop(while: isBlank)
      while let last = part.last, isBlank(last) { part = part.dropLast() }
      guard let decoded = decode(part) else { return nil }
      values.append(decoded)
    }
    return values
  }

  private static func letter(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: UInt8(ascii: "A") + value
    case 26..<52: UInt8(ascii: "a") + value - 26
    case 52..<62: UInt8(ascii: "0") + value - 52
    case 62: UInt8(ascii: "+")
    default: UInt8(ascii: "/")
    }
  }

  private static func sextet(_ letter: UInt8) -> UInt8? {
    switch letter {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): letter - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): letter - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): letter - UInt8(ascii: "0") + 52
    case UInt8(ascii: "+"): 62
    case UInt8(ascii: "/"): 63
    default: nil
    }
  }
}
