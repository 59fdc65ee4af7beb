import LatchkeyModel

/// What came of using a refresh token.
package enum RefreshOutcome: Sendable, Equatable {
  /// The session, whose newest token is the answer.
  case refreshed(Session)
  /// A token was used that had been replaced: the session has ended now.
  case reused(Session)
  case ended(Session.End)
  case expired
  /// No such session, or not its token.
  case unknown
}
