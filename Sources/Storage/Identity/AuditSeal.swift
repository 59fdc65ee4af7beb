/// What an event says of where other chains end.
package struct AuditSeal: Sendable, Equatable {
  package var ends: [AuditEnd]

  package init(_ ends: [AuditEnd]) {
    self.ends = ends
  }

  /// As it is stored: `chain:number:link` for each.
  package var text: String {
    ends.map { "\($0.chain):\($0.number):\(Self.hexadecimal($0.link))" }.joined(separator: " ")
  }

  /// Nil for what no seal is stored as.
  package init?(_ text: String) {
    ends = []
    for part in text.split(separator: " ") {
      let fields = part.split(separator: ":")
      guard fields.count == 3, let chain = Int64(fields[0]), let number = Int64(fields[1]),
        let link = Self.bytes(fields[2])
      else { return nil }
      ends.append(AuditEnd(chain: chain, number: number, link: link))
    }
  }

  private static func hexadecimal(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  private static func bytes(_ text: Substring) -> [UInt8]? {
    let digits = text.utf8.map { UInt8(ascii: "a") <= $0 ? $0 &- 87 : $0 &- 48 }
    guard digits.count.isMultiple(of: 2), digits.allSatisfy({ $0 < 16 }) else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
  }
}
