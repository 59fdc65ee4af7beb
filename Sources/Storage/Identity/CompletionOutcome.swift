import LatchkeyModel

/// What came of completing a migration.
package enum CompletionOutcome: Sendable, Equatable {
  case completed(sessionsEnded: Int)
  /// Said before, for the same account.
  case already
  case unknownGuest
  /// The guest became an account, or went into another one.
  case refused
  case unknownTarget
}
