import Storage
import Synchronization

/// Tells this instance what happened to sessions: what a call of its own did, and what was found in the rows.
///
/// An end comes both ways where others have the rows too. Who comes second has nothing to tell, and returns when the first
/// has told it: so each watcher hears it once, and before whoever asked for it is answered. What begins, and what becomes of
/// guides, is told when it is found, whoever did it: a call whose commit was not answered does not know.
final class SessionNews: SessionListener {
  private let endedSessions: EndedSessions
  private let others: [any SessionListener]
  /// Whether others have the rows too, so that everything is found there.
  private let isShared: Bool
  private let turn = Mutex(())

  init(_ endedSessions: EndedSessions, _ others: [any SessionListener], isShared: Bool = true) {
    self.endedSessions = endedSessions
    self.others = others
    self.isShared = isShared
  }

  func sessionsChanged(_ changes: SessionChanges) {
    guard isShared else { return found(changes) }
    var own = changes
    own.began = []
    own.failedMerges = []
    own.guides = []
    if !own.isEmpty { found(own) }
  }

  /// What was done, as the rows say.
  func found(_ changes: SessionChanges) {
    guard !changes.ended.isEmpty || !changes.began.isEmpty else { return tell(changes) }
    turn.withLock { _ in
      var news = changes
      news.ended.removeAll { endedSessions.hasEnded($0.id) }
      // Found before this instance ended it: then it was told as that.
      news.began.removeAll { endedSessions.hasEnded($0.id) }
      if !news.isEmpty { tell(news) }
    }
  }

  func newsMissed() {
    for listener in others { listener.newsMissed() }
  }

  private func tell(_ changes: SessionChanges) {
    endedSessions.sessionsChanged(changes)
    for listener in others { listener.sessionsChanged(changes) }
  }
}
