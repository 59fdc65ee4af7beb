/// Where the codes of this installation point: scheme, host, optional port and optional path, such as
/// `https://login.example`. In one canonical form, so that comparing is comparing bytes.
package struct QRVerificationBase: Sendable, Hashable {
  /// Without a final slash.
  package let text: String

  /// Nil unless `text` is `http` or `https`, a lower-case host or an address, and optionally a port and a path of plain
  /// segments: no user information, query, fragment, percent-encoding or empty segment.
  package init?(_ text: String) {
    guard text.utf8.count <= 200 else { return nil }
    let scheme = ["https://", "http://"].first { text.utf8.starts(with: $0.utf8) }
    guard let scheme else { return nil }
    let rest = Substring(text.utf8.dropFirst(scheme.utf8.count))
    let parts = rest.split(separator: "/", omittingEmptySubsequences: false)
    guard let authority = parts.first, QRVerificationBase.isAuthority(authority) else { return nil }
    guard parts.dropFirst().allSatisfy(QRVerificationBase.isSegment) else { return nil }
    self.text = text
  }

  private static func isAuthority(_ text: Substring) -> Bool {
    var host = text
    if let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") {
      let port = text[text.index(after: colon)...]
      let digitsOnly = port.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      guard digitsOnly, let number = UInt16(port), number > 0, !port.hasPrefix("0") else { return false }
      host = text[..<colon]
    }
    if host.hasPrefix("["), host.hasSuffix("]") {
      let address = host.dropFirst().dropLast()
      return address.contains(":") && address.utf8.allSatisfy { isLowerHex($0) || $0 == UInt8(ascii: ":") }
    }
    let labels = host.split(separator: ".", omittingEmptySubsequences: false)
    return labels.allSatisfy { label in
      !label.isEmpty && label.utf8.count <= 63 && !label.hasPrefix("-") && !label.hasSuffix("-")
        && label.utf8.allSatisfy { isLowerLetterOrDigit($0) || $0 == UInt8(ascii: "-") }
    }
  }

  private static func isSegment(_ text: Substring) -> Bool {
    !text.isEmpty && text != "." && text != ".."
      && text.utf8.allSatisfy { byte in
        isLowerLetterOrDigit(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
          || "-._~".utf8.contains(byte)
      }
  }

  private static func isLowerLetterOrDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }

  private static func isLowerHex(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}
