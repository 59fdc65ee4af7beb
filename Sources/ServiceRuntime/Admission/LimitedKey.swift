package import Callers
package import LatchkeyModel

/// What a ``RateLimiter`` counts by.
package protocol LimitedKey: Hashable, Sendable {
  /// What it is a part of that may be one caller's as a whole, the narrowest first; nothing where there is none.
  var wider: [Self] { get }
}

extension NetworkAddress: LimitedKey {
  /// The IPv6 /48 and /32, or the IPv4 /16. The lower half of IPv6 says how long the network's part is: networks of two
  /// lengths are two.
  package var wider: [NetworkAddress] {
    switch self {
    case .v4(let address): [.v4(address & 0xFFFF_0000)]
    case .v6(let high, _): [.v6(high & 0xFFFF_FFFF_FFFF_0000, 48), .v6(high & 0xFFFF_FFFF_0000_0000, 32)]
    }
  }
}

extension SubjectID: LimitedKey {
  package var wider: [SubjectID] { [] }
}

extension String: LimitedKey {
  package var wider: [String] { [] }
}

extension Bool: LimitedKey {
  package var wider: [Bool] { [] }
}
