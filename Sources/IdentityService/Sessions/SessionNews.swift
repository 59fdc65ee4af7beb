import Storage
import Synchronization

/// Tells this instance what happened to sessions: what a call of its own did, and what was found in the rows.
///
/// An end comes both ways where others have the rows too. Who comes second has nothing to tell, and returns when the first
/// has told it: so each watcher hears it once, and before whoever asked for it is answered.
final class SessionNews: SessionListener {
  private let endedSessions: EndedSessions
  private let others: [any SessionListener]
  private let turn = Mutex(())

  init(_ endedSessions: EndedSessions, _ others: [any SessionListener]) {
    self.endedSessions = endedSessions
    self.others = others
  }

  func sessionsChanged(_ changes: SessionChanges) {
    guard !changes.ended.isEmpty else { return tell(changes) }
    turn.withLock { _ in
      var news = changes
      news.ended.removeAll { endedSessions.hasEnded($0.id) }
      if !news.isEmpty { tell(news) }
    }
  }

  private func tell(_ changes: SessionChanges) {
    endedSessions.sessionsChanged(changes)
    for listener in others { listener.sessionsChanged(changes) }
  }
}
