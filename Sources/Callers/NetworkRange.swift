/// The addresses of one network, from the first to the last.
package struct NetworkRange: Sendable, Hashable {
  package let first: NetworkAddress
  package let last: NetworkAddress

  /// Reads CIDR notation, such as `203.0.113.0/24`; nil for anything else. Bits past the prefix are passed over.
  package init?(_ text: some StringProtocol) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let bits = Int(parts[1]), let address = NetworkAddress(String(parts[0])) else { return nil }
    switch address {
    case .v4(let address):
      guard (0...32).contains(bits) else { return nil }
      let mask = UInt32.max << UInt32(32 - bits)
      (first, last) = (.v4(address & mask), .v4(address | ~mask))
    case .v6(let high, let low):
      guard (0...128).contains(bits) else { return nil }
      let upper = UInt64.max << UInt64(max(0, 64 - bits))
      let lower = UInt64.max << UInt64(min(64, 128 - bits))
      (first, last) = (.v6(high & upper, low & lower), .v6(high | ~upper, low | ~lower))
    }
  }

  /// Reads CIDR notation, or one address alone; nil for anything else.
  package init?(networkOrAddress text: String) {
    if let address = NetworkAddress(text) { self.init(address) } else { self.init(text) }
  }

  /// One address alone.
  package init(_ address: NetworkAddress) {
    (first, last) = (address, address)
  }

  package func contains(_ address: NetworkAddress) -> Bool {
    switch (first, last, address) {
    case (.v4(let first), .v4(let last), .v4(let address)):
      return first <= address && address <= last
    case (.v6(let firstHigh, let firstLow), .v6(let lastHigh, let lastLow), .v6(let high, let low)):
      return (firstHigh, firstLow) <= (high, low) && (high, low) <= (lastHigh, lastLow)
    default:
      return false
    }
  }
}
