import LatchkeyModel
import ServiceRuntime
import Storage
import Synchronization

/// Hands what happens to sessions to whoever watches them at this instance.
package final class SessionEventHub: SessionListener {
  package enum Event: Sendable, Equatable {
    case started(Session)
    case ended(EndedSession)
    case mergeFailed(FailedMerge)
    /// There may have been others.
    case missed
  }

  package struct Watch: Sendable {
    package let events: AsyncStream<Event>
    let subject: SubjectID
    let number: UInt64
  }

  private struct State {
    var isDraining = false
    var watches = WatchTable<AsyncStream<Event>.Continuation>(Limits.watchBounds)
  }

  private let state = Mutex(State())

  package init() {}

  /// Nil when the session, the device, the subject or the process has as many watches as it may, and when the service is
  /// stopping. The events of a watch whose place another takes end.
  package func watch(_ holder: WatchHolder) -> Watch? {
    let (events, continuation) = AsyncStream.makeStream(
      of: Event.self, bufferingPolicy: .bufferingNewest(Limits.eventsPerWatch))
    let entrance = state.withLock { state in
      state.isDraining ? .refused : state.watches.enter(holder, continuation)
    }
    switch entrance {
    case .entered(let number):
      return Watch(events: events, subject: holder.subject, number: number)
    case .inPlaceOf(let displaced, let number):
      displaced.finish()
      return Watch(events: events, subject: holder.subject, number: number)
    case .refused:
      return nil
    }
  }

  /// Ends every watch, and lets none begin: the service is stopping.
  package func drain() {
    state.withLock { state in
      state.isDraining = true
      for continuation in state.watches.watchers { continuation.finish() }
    }
  }

  package func leave(_ watch: Watch) {
    let continuation = state.withLock { $0.watches.leave(watch.number, of: watch.subject) }
    continuation?.finish()
  }

  package func sessionsChanged(_ changes: SessionChanges) {
    state.withLock { state in
      guard state.watches.count > 0 else { return }
      // What ends makes room for what begins: told in that order, a list never shows both.
      for ended in changes.ended {
        for continuation in state.watches.watchers(of: ended.subject) { continuation.yield(.ended(ended)) }
      }
      for merge in changes.failedMerges {
        for continuation in state.watches.watchers(of: merge.target) {
          continuation.yield(.mergeFailed(merge))
        }
      }
      for session in changes.began {
        for continuation in state.watches.watchers(of: session.subject) {
          continuation.yield(.started(session))
        }
      }
    }
  }

  package func newsMissed() {
    state.withLock { state in
      for continuation in state.watches.watchers { continuation.yield(.missed) }
    }
  }

  /// Watches that are open.
  package var count: Int { state.withLock { $0.watches.count } }

  /// Whether the service is stopping: what ended a watch, if not its place being taken.
  package var isDraining: Bool { state.withLock { $0.isDraining } }
}
