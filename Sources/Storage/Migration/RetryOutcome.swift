/// What came of asking for a failed migration again.
package enum RetryOutcome: Sendable, Equatable {
  case retried
  /// It is under way, or done.
  case notFailed
  /// The records are others now: plan again.
  case stale
  /// Another migration has the guest.
  case migrating
  case migrated
  case unknown
}
