internal import Synchronization

/// The sessions that identity has told to have ended, for as long as a token of theirs may hold.
///
/// Two generations, each as long as a token lives, bound it: what the older one holds can no longer be presented when
/// it is dropped.
final class RevokedSessions: Sendable {
  private struct State {
    var young: Set<String> = []
    var old: Set<String> = []
    /// When the young generation began.
    var turned: ContinuousClock.Instant?
    /// When identity was last heard, having told everything.
    var heard: ContinuousClock.Instant?
  }

  private let state = Mutex(State())

  /// Takes one message.
  func take(_ sessions: [String], isCaughtUp: Bool, retention: Duration, at now: ContinuousClock.Instant) {
    state.withLock { state in
      let turned = state.turned ?? now
      state.turned = turned
      if now >= turned + retention {
        state.old = state.young
        state.young = []
        state.turned = now
      }
      state.young.formUnion(sessions)
      if isCaughtUp { state.heard = now }
    }
  }

  func contains(_ session: String) -> Bool {
    state.withLock { $0.young.contains(session) || $0.old.contains(session) }
  }

  /// When everything was last known; nil before it ever was.
  var heard: ContinuousClock.Instant? { state.withLock { $0.heard } }

  var count: Int { state.withLock { $0.young.count + $0.old.count } }
}
