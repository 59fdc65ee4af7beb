import LatchkeyModel

/// The parameters of an `application/x-www-form-urlencoded` body, as OAuth sends them (RFC 6749 appendix B).
struct FormParameters: Sendable, Equatable {
  private var values: [String: String] = [:]

  /// Nil for a broken escape, for what is not UTF-8, for more parameters than any request has, and for one that comes
  /// twice, which RFC 6749 section 3.2 forbids. A parameter without a value counts as absent (same section).
  init?(_ body: [UInt8]) {
    guard body.count <= Limits.formBytes else { return nil }
    for pair in body.split(separator: UInt8(ascii: "&")) {
      let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = FormParameters.decode(parts[0]), !name.isEmpty,
        let value = FormParameters.decode(parts.count == 2 ? parts[1] : [])
      else { return nil }
      guard values[name] == nil, values.count < Limits.formParameters else { return nil }
      values[name] = value
    }
    values = values.filter { !$0.value.isEmpty }
  }

  subscript(name: String) -> String? { values[name] }

  private static func decode(_ text: ArraySlice<UInt8>) -> String? {
    var bytes: [UInt8] = []
    var rest = text
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"):
        bytes.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else { return nil }
        bytes.append(high << 4 | low)
      default:
        bytes.append(byte)
      }
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
