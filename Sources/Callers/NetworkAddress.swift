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
    let high = bytes[0..<8].reduce(0) { $0 << 8 | UInt64($1) }
    let low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
    self = high == 0 && low >> 32 == 0xFFFF ? .v4(UInt32(truncatingIfNeeded: low)) : .v6(high, low)
  }

  /// What one subscriber usually has: the address itself, or the /64. Limits count by it.
  package var source: NetworkAddress {
    switch self {
    case .v4: self
    case .v6(let high, _): .v6(high, 0)
    }
  }

  /// This machine itself, as which everything appears that comes through a proxy on it.
  package var isLoopback: Bool {
    switch self {
    case .v4(let address): address >> 24 == 127
    case .v6(let high, let low): high == 0 && low == 1
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
