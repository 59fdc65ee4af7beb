import LatchkeyModel

/// The right to drive a migration for a while.
package struct JobLease: Sendable, Hashable {
  /// The longest that a migration is ever held without progress, or put off. What seems to be for longer was held or put
  /// off before the clock was set back, and is due.
  package static let longestPause: Duration = .seconds(60)

  /// Random for each claim: nobody else holds the same, and neither does who claims again what they lost.
  package let holder: OpaqueIDValue
  package let duration: Duration

  package init(holder: OpaqueIDValue, duration: Duration) {
    precondition(duration <= Self.longestPause, "a longer claim would not be told from one of another time")
    self.holder = holder
    self.duration = duration
  }
}
