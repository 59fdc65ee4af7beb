/// The coding of `grpc-message`: UTF-8 with everything but printable ASCII, and the percent sign, as `%XX`; so are spaces
/// at either end, which no field's value may have.
///
/// Source: gRPC over HTTP/2, "Status-Message"; RFC 9113 §8.2.1.
package enum PercentEncoding {
  package static func encode(_ message: String) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(message.utf8.count)
    let bytes = message.utf8
    let first = bytes.firstIndex { $0 != 0x20 } ?? bytes.endIndex
    let last = bytes.lastIndex { $0 != 0x20 } ?? first
    for (index, byte) in zip(bytes.indices, bytes) {
      let isInside = (first...last).contains(index)
      if (0x20...0x7e).contains(byte), byte != UInt8(ascii: "%"), isInside {
        result.append(byte)
      } else {
        result.append(UInt8(ascii: "%"))
        result.append(digit(byte >> 4))
        result.append(digit(byte & 15))
      }
    }
    return result
  }

  /// Decodes leniently, as the specification asks: what is no valid escape stays as it is, what is no UTF-8 is
  /// replaced.
  package static func decode(_ bytes: some Collection<UInt8>) -> String {
    let bytes = Array(bytes)
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    var index = 0
    while index < bytes.count {
      if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = value(bytes[index + 1]),
        let low = value(bytes[index + 2])
      {
        result.append(high << 4 | low)
        index += 3
      } else {
        result.append(bytes[index])
        index += 1
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    default: nil
    }
  }
}
