import Glibc

/// Where a call comes from, as far as counting goes: an IPv4 address or an IPv6 /64, which is what one subscriber has.
enum SourceNetwork: Sendable, Hashable {
  case v4(UInt32)
  case v6(UInt64)

  /// Nil for what is no address and for this machine itself: what a proxy in front hides cannot be counted.
  init?(_ address: String) {
    var four = in_addr()
    // Both calls read the text up to its NUL and write one address through the pointer.
    if unsafe inet_pton(AF_INET, address, &four) == 1 {
      guard let network = Self.v4Network(UInt32(bigEndian: four.s_addr)) else { return nil }
      self = network
      return
    }
    var bytes = [UInt8](repeating: 0, count: 16)
    let isSix = unsafe bytes.withUnsafeMutableBytes { unsafe inet_pton(AF_INET6, address, $0.baseAddress) == 1 }
    guard isSix else { return nil }
    let high = bytes[0..<8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    let low = bytes[8..<16].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    if high == 0, low == 1 { return nil }
    if high == 0, low >> 32 == 0xFFFF {
      // An IPv4 address inside IPv6 (RFC 4291 section 2.5.5.2).
      guard let network = Self.v4Network(UInt32(truncatingIfNeeded: low)) else { return nil }
      self = network
      return
    }
    self = .v6(high)
  }

  /// Whether two addresses are of one network. This machine is one network with itself only.
  static func isSame(_ one: String, _ other: String) -> Bool {
    switch (SourceNetwork(one), SourceNetwork(other)) {
    case (nil, nil): one == other
    case (let one, let other): one == other
    }
  }

  private static func v4Network(_ address: UInt32) -> SourceNetwork? {
    address >> 24 == 127 ? nil : .v4(address)
  }
}
