/// The two forms of a P-256 signature: 64 bytes r then s on the wire (RFC 7518 section 3.4), DER inside OpenSSL.
package enum ECDSASignature {
  /// The length of the raw form in bytes.
  package static let rawByteCount = 64
  /// The longest DER form: two integers of 33 bytes with their headers, in one sequence.
  static let derByteLimit = 72

  /// The DER form of 64 raw bytes; nil for any other length.
  static func der(raw: [UInt8]) -> [UInt8]? {
    guard raw.count == rawByteCount else { return nil }
    let body = integer(raw[..<32]) + integer(raw[32...])
    return [0x30, UInt8(body.count)] + body
  }

  /// The raw form of one strict DER signature; nil for what is none.
  static func raw(der: [UInt8]) -> [UInt8]? {
    guard der.count >= 2, der[0] == 0x30, Int(der[1]) == der.count - 2 else { return nil }
    var rest = der[2...]
    guard let r = scalar(&rest), let s = scalar(&rest), rest.isEmpty else { return nil }
    return r + s
  }

  private static func integer(_ scalar: ArraySlice<UInt8>) -> [UInt8] {
    var digits = scalar.drop { $0 == 0 }
    if digits.isEmpty { digits = [0] }
    // A leading bit would make the number negative.
    let padding: [UInt8] = digits[digits.startIndex] >= 0x80 ? [0] : []
    return [0x02, UInt8(digits.count + padding.count)] + padding + digits
  }

  private static func scalar(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
    guard rest.popFirst() == 0x02, let length = rest.popFirst(), length >= 1, Int(length) <= rest.count else {
      return nil
    }
    let digits = rest.prefix(Int(length)).drop { $0 == 0 }
    rest = rest.dropFirst(Int(length))
    guard digits.count <= 32 else { return nil }
    return [UInt8](repeating: 0, count: 32 - digits.count) + digits
  }
}
