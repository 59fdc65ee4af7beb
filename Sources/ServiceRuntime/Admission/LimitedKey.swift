package import Callers
package import LatchkeyModel

/// What a ``RateLimiter`` counts by.
package protocol LimitedKey: Hashable, Sendable {
  /// What it is a part of that may be one caller's as a whole: at level 0 the narrowest, and nil above the widest.
  func wider(_ level: Int) -> Self?
}

extension LimitedKey {
  /// All that it is a part of, the narrowest first.
  var networks: some Sequence<Self> {
    sequence(state: 0) { level in
      defer { level += 1 }
      return wider(level)
    }
  }

  func isPart(of network: Self) -> Bool {
    var level = 0
    while let wider = wider(level) {
      if wider == network { return true }
      level += 1
    }
    return false
  }
}

extension NetworkAddress: LimitedKey {
  /// The IPv6 /48 and /32, or the IPv4 /16. The lower half of IPv6 says how long the network's part is: networks of two
  /// lengths are two.
  package func wider(_ level: Int) -> NetworkAddress? {
    switch (self, level) {
    case (.v4(let address), 0): .v4(address & 0xFFFF_0000)
    case (.v6(let high, _), 0): .v6(high & 0xFFFF_FFFF_FFFF_0000, 48)
    case (.v6(let high, _), 1): .v6(high & 0xFFFF_FFFF_0000_0000, 32)
    default: nil
    }
  }
}

extension SubjectID: LimitedKey {
  package func wider(_ level: Int) -> SubjectID? { nil }
}

extension String: LimitedKey {
  package func wider(_ level: Int) -> String? { nil }
}

extension Bool: LimitedKey {
  package func wider(_ level: Int) -> Bool? { nil }
}
