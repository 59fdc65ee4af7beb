import LatchkeyModel
import ServiceRuntime
import Storage
import Synchronization

/// The sessions that ended while an access token of theirs may still be valid, in memory: every call asks, so asking
/// takes no storage.
///
/// Filled from storage at the start and by storage afterwards, before an end is acknowledged. Two generations, each as
/// long as a token lives, bound it: what the older one holds can no longer be presented when it is dropped.
///
/// Where other instances have the rows too, an ``EndedSessionTail`` says when all of it was known last; once that is too
/// long ago no token is accepted.
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
  /// When everything that had ended was known last; nil where all ends are made here.
  private let known: Mutex<ContinuousClock.Instant?>

  /// - Parameter isShared: whether others end sessions too, so that nothing is known until ``isKnown(at:)`` says so.
  package init(keepingFor retention: Duration, clock: any WallClock, isShared: Bool = false) {
    self.retention = retention
    self.clock = clock
    known = Mutex(isShared ? .now - Limits.endingsGrace : nil)
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

  /// Everything that had ended at a moment is remembered.
  func isKnown(at moment: ContinuousClock.Instant) {
    known.withLock { if let before = $0 { $0 = max(before, moment) } }
  }

  /// Whether no end can be unknown here that is older than the grace.
  package var isCurrent: Bool { isCurrent(at: .now) }

  func isCurrent(at now: ContinuousClock.Instant) -> Bool { isKnown(within: Limits.endingsGrace, at: now) }

  /// Whether another service may be told that it knows all: what it may do then without hearing more begins with that.
  package var isFresh: Bool { isFresh(at: .now) }

  func isFresh(at now: ContinuousClock.Instant) -> Bool { isKnown(within: Limits.endingsFreshness, at: now) }

  private func isKnown(within time: Duration, at now: ContinuousClock.Instant) -> Bool {
    known.withLock { known in known.map { now < $0 + time } ?? true }
  }

  /// Why no token can be accepted; nil while that can be.
  package var obstacle: String? {
    isCurrent ? nil : "which sessions other instances ended is not known"
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
