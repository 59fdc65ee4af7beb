import LatchkeyModel
import ServiceRuntime
import Storage
import Synchronization

/// The sessions that ended while an access token of theirs may still be valid, in memory: every call asks, so asking
/// takes no storage.
///
/// Filled from storage at the start and by storage afterwards, before an end is acknowledged. Two generations, each as
/// long as a token lives, bound it: what the older one holds can no longer be presented when it is dropped.
package final class EndedSessions: SessionAuthority, SessionListener {
  private struct State {
    var young: Set<SessionID> = []
    var old: Set<SessionID> = []
    var youngConfirmed: Set<SessionID> = []
    var oldConfirmed: Set<SessionID> = []
    var turned: Timestamp
  }

  /// The other services, which are told of each end.
  package let watches = RevocationWatches()
  /// For how long an ended session is remembered, at least.
  package let retention: Duration
  private let clock: any WallClock
  private let state: Mutex<State>

  package init(keepingFor retention: Duration, clock: any WallClock) {
    self.retention = retention
    self.clock = clock
    state = Mutex(State(turned: clock.now()))
  }

  package func sessionsChanged(_ changes: SessionChanges) {
    if !changes.confirmed.isEmpty { state.withLock { $0.youngConfirmed.formUnion(changes.confirmed) } }
    guard !changes.ended.isEmpty else { return }
    // Remembered first: a watch that begins in between finds it among all.
    remember(changes.ended)
    watches.tell(changes.ended.map(\.id))
  }

  package func remember(_ sessions: [EndedSession]) {
    let now = clock.now()
    state.withLock { state in
      if now >= state.turned + retention {
        state.old = state.young
        state.young = []
        state.oldConfirmed = state.youngConfirmed
        state.youngConfirmed = []
        state.turned = now
      }
      for session in sessions { state.young.insert(session.id) }
    }
  }

  /// Every session that is remembered.
  package var all: Set<SessionID> { state.withLock { $0.young.union($0.old) } }

  /// Tokens that say otherwise are older than the confirmation. Elsewhere, and after a restart, they hold for what they
  /// say until they are refreshed.
  package func wasConfirmed(_ subject: AuthenticatedSubject) -> Bool {
    guard let id = SessionID(subject.sessionID) else { return false }
    return state.withLock { $0.youngConfirmed.contains(id) || $0.oldConfirmed.contains(id) }
  }

  package func hasEnded(_ subject: AuthenticatedSubject) -> Bool {
    guard let id = SessionID(subject.sessionID) else { return true }
    return hasEnded(id)
  }

  package func hasEnded(_ id: SessionID) -> Bool {
    state.withLock { $0.young.contains(id) || $0.old.contains(id) }
  }
}
