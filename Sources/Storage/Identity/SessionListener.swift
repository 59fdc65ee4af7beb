/// Is told of every session that begins or ends, after the change is durable and before whoever asked for it is
/// answered: what was acknowledged as ended is refused from then on.
package protocol SessionListener: Sendable {
  func sessionsChanged(_ changes: SessionChanges)

  /// What other instances did may have gone unheard: whoever watches has to look for themselves.
  func newsMissed()
}

extension SessionListener {
  package func newsMissed() {}
}
