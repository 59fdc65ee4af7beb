/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// An hour in nanoseconds: longer than any call may take. A latency beyond it counts as it.
  static let longestLatency: UInt64 = 3_600_000_000_000

  /// A day: the longest run whose seconds are told apart.
  static let seconds = 86_400

  /// Operations that the correction of one latency may add: it is a loop, and more would change no percentile shown.
  static let correctionsPerValue: UInt64 = 100_000

  /// Broken promises that a report names. One is reason enough to stop; more only help to find it.
  static let namedViolations = 20
}
