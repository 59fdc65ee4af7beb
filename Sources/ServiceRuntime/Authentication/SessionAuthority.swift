/// Knows sessions that ended before their tokens expired (R14).
package protocol SessionAuthority: Sendable {
  /// Whether the session no longer gives access. Called for every authenticated call on an event loop: it must answer
  /// from memory.
  func hasEnded(_ subject: AuthenticatedSubject) -> Bool

  /// Whether `hasEnded` can be relied on now. While it cannot, no token is accepted: a service that cannot know fails
  /// closed (R41).
  var isCurrent: Bool { get }
}

extension SessionAuthority {
  /// Who keeps the sessions itself always knows.
  package var isCurrent: Bool { true }
}
