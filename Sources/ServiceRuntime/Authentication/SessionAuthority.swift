/// Knows sessions that ended before their tokens expired (R14).
package protocol SessionAuthority: Sendable {
  /// Whether the session no longer gives access. Called for every authenticated call on an event loop: it must answer
  /// from memory.
  func hasEnded(_ subject: AuthenticatedSubject) -> Bool
}
