import LatchkeyModel

/// The right to drive a migration for a while.
package struct JobLease: Sendable, Hashable {
  /// Random: nobody else holds the same.
  package let holder: OpaqueIDValue
  package let duration: Duration

  package init(holder: OpaqueIDValue, duration: Duration) {
    self.holder = holder
    self.duration = duration
  }
}
