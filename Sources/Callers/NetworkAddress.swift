internal import Glibc

/// An IP address, for judging how near two devices are and for counting what comes from one place.
package enum NetworkAddress: Sendable, Hashable {
  case v4(UInt32)
  /// The upper and the lower half.
  case v6(UInt64, UInt64)

  /// Reads the text form; nil for anything else. An IPv4 address inside IPv6 (RFC 4291 section 2.5.5.2) is IPv4.
  package init?(_ text: String) {
    var four = in_addr()
    // Both calls read the text up to its NUL and write one address through the pointer.
    if unsafe inet_pton(AF_INET, text, &four) == 1 {
      self = .v4(UInt32(bigEndian: four.s_addr))
      return
    }
    var bytes = [UInt8](repeating: 0, count: 16)
    let isSix = unsafe bytes.withUnsafeMutableBytes { unsafe inet_pton(AF_INET6, text, $0.baseAddress) == 1 }
    guard isSix else { return nil }
    self.init(sixteen: bytes[...])
  }

  /// Reads the sixteen bytes of an IPv6 address. An IPv4 address inside is IPv4.
  package init(sixteen bytes: ArraySlice<UInt8>) {
    precondition(bytes.count == 16, "an IPv6 address has sixteen bytes")
    let high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    let low = bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
    self = high == 0 && low >> 32 == 0xFFFF ? .v4(UInt32(truncatingIfNeeded: low)) : .v6(high, low)
  }

  /// Reads what proxies write: an address, or one with a port, where that of IPv6 is in brackets (RFC 7239 section 6).
  init?(node text: String) {
    // A letter of another script may take a mark beside it to itself.
    guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else { return nil }
    var text = text[...]
    if text.first == "[" {
      guard let end = text.firstIndex(of: "]"), Self.isPort(text[text.index(after: end)...]) else { return nil }
      text = text[..<end].dropFirst()
      guard text.contains(":") else { return nil }
    } else if let colon = text.firstIndex(of: ":"), text[text.index(after: colon)...].firstIndex(of: ":") == nil {
      guard Self.isPort(text[colon...]) else { return nil }
      text = text[..<colon]
    }
    self.init(String(text))
  }

  /// Nothing, or a colon and a port, which may be hidden: `_` and letters, digits or `._-` (RFC 7239 section 6.3). ASCII.
  private static func isPort(_ text: Substring) -> Bool {
    guard let colon = text.first else { return true }
    let port = text.dropFirst()
    guard colon == ":", !port.isEmpty, port.utf8.count <= 32 else { return false }
    guard port.first == "_" else { return port.allSatisfy(\.isNumber) }
    return port.allSatisfy { $0.isLetter || $0.isNumber || "._-".contains($0) }
  }

  /// What one subscriber usually has: the address itself, or the /64. Limits count by it.
  package var source: NetworkAddress {
    switch self {
    case .v4: self
    case .v6(let high, _): .v6(high, 0)
    }
  }

  /// The sixteen bytes of IPv6 as two numbers, the upper half first; an IPv4 address as it is written inside IPv6.
  package var number: SIMD2<UInt64> {
    switch self {
    case .v4(let address): [0, 0xFFFF_0000_0000 | UInt64(address)]
    case .v6(let high, let low): [high, low]
    }
  }

  /// The text form, such as `192.0.2.7` or `2001:db8::1`.
  package var text: String {
    switch self {
    case .v4(let address):
      return [24, 16, 8, 0].map { String(address >> $0 & 255) }.joined(separator: ".")
    case .v6(let high, let low):
      var bytes = (high.bigEndian, low.bigEndian)
      var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
      // Reads the sixteen bytes and writes at most as many as the text has, the NUL included.
      unsafe inet_ntop(AF_INET6, &bytes, &text, socklen_t(text.count))
      return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
  }

  /// Whether both are in one IPv4 /24 or IPv6 /48: one home or office, as a rule.
  package func isSameNetwork(as other: NetworkAddress) -> Bool {
    switch (self, other) {
    case (.v4(let left), .v4(let right)): left >> 8 == right >> 8
    case (.v6(let left, _), .v6(let right, _)): left >> 16 == right >> 16
    default: false
    }
  }

  /// Whether two addresses are one source. What is no address is the same as its own text only.
  package static func isSameSource(_ one: String, _ other: String) -> Bool {
    switch (NetworkAddress(one), NetworkAddress(other)) {
    case (nil, nil): one == other
    case (let one, let other): one?.source == other?.source
    }
  }

  /// The network with the device left out, such as `203.0.113.0/24`: what the confirm screen shows.
  package var coarse: String {
    switch self {
    case .v4(let address):
      "\(address >> 24).\(address >> 16 & 255).\(address >> 8 & 255).0/24"
    case .v6(let high, _):
      [48, 32, 16].map { String(high >> $0 & 0xFFFF, radix: 16) }.joined(separator: ":") + "::/48"
    }
  }
}
