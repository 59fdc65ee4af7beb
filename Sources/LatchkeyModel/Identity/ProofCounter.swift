/// The numbers that a device key has signed its proofs with, as the service remembers them: the highest, and which of the
/// 63 before it.
///
/// A device counts up by one, so each number is used once; who uses one again holds a copy of the key. Proofs overtake
/// each other on the way, two that were begun at the same time or one that a dead connection held back, so a number that
/// is lower but was not seen yet is no sign of that. Source: the anti-replay window of RFC 4303 section 3.4.3.
package struct ProofCounter: Sendable, Equatable {
  package static let window: Int64 = 64

  package private(set) var highest: Int64
  /// Bit n modulo 64 stands for number n of those from `highest` down.
  package private(set) var seen: UInt64

  /// The first number that a key has signed; at least 1.
  package init(first: Int64) {
    highest = first
    seen = Self.bit(first)
  }

  package init(highest: Int64, seen: UInt64) {
    self.highest = highest
    self.seen = seen
  }

  /// Takes note of a number. False for one that was used before, is too old to tell, or is none at all.
  package mutating func take(_ number: Int64) -> Bool {
    guard number > 0 else { return false }
    guard number > highest else {
      guard highest - number < Self.window, seen & Self.bit(number) == 0 else { return false }
      seen |= Self.bit(number)
      return true
    }
    if number - highest >= Self.window {
      seen = 0
    } else {
      // The numbers that were skipped take the places of old ones.
      for skipped in (highest + 1)..<number { seen &= ~Self.bit(skipped) }
    }
    highest = number
    seen |= Self.bit(number)
    return true
  }

  private static func bit(_ number: Int64) -> UInt64 { 1 << UInt64(number & (window - 1)) }
}
