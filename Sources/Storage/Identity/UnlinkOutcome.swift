/// What came of unlinking an identity.
package enum UnlinkOutcome: Sendable, Equatable {
  case unlinked
  /// It did not lead to this account.
  case notFound
  case last
  /// The caller's session ended meanwhile.
  case callerEnded
}
