/// What a connection begins with when the proxy that opened it says for whom (PROXY protocol, versions 1 and 2).
///
/// Source: HAProxy, "The PROXY protocol", versions 1 & 2 (2020).
package enum ProxyHeader: Sendable, Equatable {
  /// Whether there is a header does not show before more bytes come, or not all of it came.
  case incomplete
  /// The bytes are something else.
  case absent
  /// The connection cannot go on: where its own bytes begin is unknown.
  case malformed
  /// So many bytes, before those of the client; nil where the proxy speaks for itself, as in checks of its own, or
  /// cannot say for whom.
  case present(byteCount: Int, client: Client?)

  package struct Client: Sendable, Equatable {
    package var address: NetworkAddress
    package var port: Int
  }

  /// Reads the start of a connection. Reads no more than ``Limits/proxyHeaderBytes``; a longer header is malformed.
  package static func parse(_ bytes: [UInt8]) -> ProxyHeader {
    if bytes.count >= signature.count ? bytes.starts(with: signature) : signature.starts(with: bytes) {
      return bytes.count >= signature.count + 4 ? parseBinary(bytes) : .incomplete
    }
    if bytes.count >= word.count ? bytes.starts(with: word) : word.starts(with: bytes) {
      return bytes.count >= word.count ? parseText(bytes) : .incomplete
    }
    return .absent
  }

  // MARK: Version 1 (section 2.1)

  private static let word = Array("PROXY ".utf8)

  private static func parseText(_ bytes: [UInt8]) -> ProxyHeader {
    let line = bytes.prefix(Limits.proxyLineBytes)
    guard let end = line.firstIndex(of: UInt8(ascii: "\r")) else {
      return bytes.count >= Limits.proxyLineBytes || line.contains(UInt8(ascii: "\n")) ? .malformed : .incomplete
    }
    guard end + 1 < bytes.count else { return end + 1 < Limits.proxyLineBytes ? .incomplete : .malformed }
    guard end + 1 < Limits.proxyLineBytes, bytes[end + 1] == UInt8(ascii: "\n") else { return .malformed }
    let words = line[..<end].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
    if words[1] == "UNKNOWN" { return .present(byteCount: end + 2, client: nil) }
    guard words.count == 6, words[1] == "TCP4" || words[1] == "TCP6" else { return .malformed }
    let isSix = words[1] == "TCP6"
    guard words[2].contains(":") == isSix, words[3].contains(":") == isSix, let address = NetworkAddress(words[2]),
      NetworkAddress(words[3]) != nil, let port = port(words[4]), self.port(words[5]) != nil
    else { return .malformed }
    return .present(byteCount: end + 2, client: Client(address: address, port: port))
  }

  private static func port(_ text: String) -> Int? {
    guard (1...5).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
      text == "0" || !text.hasPrefix("0"), let port = Int(text), port <= 65_535
    else { return nil }
    return port
  }

  // MARK: Version 2 (section 2.2)

  private static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]

  private static func parseBinary(_ bytes: [UInt8]) -> ProxyHeader {
    let (command, family) = (bytes[12], bytes[13])
    let end = 16 + (Int(bytes[14]) << 8 | Int(bytes[15]))
    guard command >> 4 == 2, command & 15 <= 1, end <= Limits.proxyHeaderBytes else { return .malformed }
    guard bytes.count >= end else { return .incomplete }
    let (addressBytes, client): (Int, Client?)
    switch family {
    case 0x11:
      guard end >= 16 + 12 else { return .malformed }
      let address = bytes[16..<20].reduce(0) { $0 << 8 | UInt32($1) }
      (addressBytes, client) = (12, Client(address: .v4(address), port: Int(bytes[24]) << 8 | Int(bytes[25])))
    case 0x21:
      guard end >= 16 + 36 else { return .malformed }
      let address = NetworkAddress(sixteen: bytes[16..<32])
      (addressBytes, client) = (36, Client(address: address, port: Int(bytes[48]) << 8 | Int(bytes[49])))
    case 0x31:
      guard end >= 16 + 216 else { return .malformed }
      (addressBytes, client) = (216, nil)
    case 0x00: return .present(byteCount: end, client: nil)
    // Datagrams do not come by a connection, and the rest is not defined.
    default: return .malformed
    }
    guard areExtensionsValid(bytes, 16 + addressBytes..<end) else { return .malformed }
    return .present(byteCount: end, client: command & 15 == 1 ? client : nil)
  }

  /// Type, length and value, one after the other, and the checksum where there is one (section 2.2.1).
  private static func areExtensionsValid(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
    var index = range.lowerBound
    while index < range.upperBound {
      guard index + 3 <= range.upperBound else { return false }
      let (type, value) = (bytes[index], index + 3)
      index = value + (Int(bytes[index + 1]) << 8 | Int(bytes[index + 2]))
      guard index <= range.upperBound else { return false }
      guard type == 0x03 else { continue }
      guard index - value == 4 else { return false }
      var covered = Array(bytes[..<range.upperBound])
      for place in value..<index { covered[place] = 0 }
      guard CRC32C.checksum(covered) == bytes[value..<index].reduce(0, { $0 << 8 | UInt32($1) }) else { return false }
    }
    return true
  }
}

/// Source: RFC 3720 appendix B.4.
private enum CRC32C {
  static func checksum(_ bytes: [UInt8]) -> UInt32 {
    ~bytes.reduce(UInt32.max) { sum, byte in
      (0..<8).reduce(sum ^ UInt32(byte)) { sum, _ in sum & 1 == 1 ? sum >> 1 ^ 0x82F6_3B78 : sum >> 1 }
    }
  }
}
