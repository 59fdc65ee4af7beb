/// Is told of every session that ends, after the change is durable and before whoever asked for it is answered: what
/// was acknowledged as ended is refused from then on.
package protocol EndedSessionListener: Sendable {
  func sessionsEnded(_ sessions: [EndedSession])
}
