/// Knows sessions that ended before their tokens expired (R14).
package protocol SessionAuthority: Sendable {
  /// Whether the session no longer gives access. Called for every authenticated call on an event loop: it must answer
  /// from memory.
  func hasEnded(_ subject: AuthenticatedSubject) -> Bool

  /// Whether the session's owner stood by it since its token was made. Answered from memory as well.
  func wasConfirmed(_ subject: AuthenticatedSubject) -> Bool

  /// Whether `hasEnded` can be relied on now. While it cannot, no token is accepted: a service that cannot know fails
  /// closed (R41).
  var isCurrent: Bool { get }
}

extension SessionAuthority {
  /// Who keeps the sessions itself always knows.
  package var isCurrent: Bool { true }

  /// Who is not told learns it from the next token.
  package func wasConfirmed(_ subject: AuthenticatedSubject) -> Bool { false }
}
