import LatchkeyModel

/// How often guesses were made, by name, over all instances that share the rows. Each name may have so many at once, which
/// are earned back evenly over a time.
package protocol GuessCounts: Sendable {
  /// Takes one. How long to wait instead when there is none left; nothing is taken then. Of those who ask at once no more
  /// are let through than there are.
  func spend(
    _ name: String, of count: Int, per window: Duration, at now: Timestamp
  ) async throws(StorageError) -> Duration?

  /// Gives one back that turned out not to count.
  func refund(
    _ name: String, of count: Int, per window: Duration, at now: Timestamp
  ) async throws(StorageError)
}
