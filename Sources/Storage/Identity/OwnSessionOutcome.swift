/// What came of a change to one of the caller's own sessions.
package enum OwnSessionOutcome: Sendable, Equatable {
  case changed
  /// It was so before, or had ended.
  case already
  /// No such session, or another's.
  case notFound
  /// The caller's session is itself unconfirmed, so it may not touch the others.
  case unconfirmed
  /// The caller's session has ended.
  case callerEnded
}
