import Glibc

/// SplitMix64: the same seed gives the same sequence everywhere.
package struct SeededRandom: RandomNumberGenerator {
  private var state: UInt64

  package init(seed: UInt64) {
    state = seed
  }

  /// A seed from the environment or from the machine, for random tests that print the one they run with:
  /// `LATCHKEY_TEST_SEED=… swift test --filter …` replays a run.
  package static func seed() -> UInt64 {
    // getenv answers a text that nothing in the tests changes; it is copied at once.
    if let text = unsafe getenv("LATCHKEY_TEST_SEED"), let seed = UInt64(unsafe String(cString: text)) { return seed }
    return UInt64.random(in: 0...UInt64.max)
  }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  package mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
  }
}
