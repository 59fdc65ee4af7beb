import LatchkeyModel
import Storage
import Synchronization

/// Hands what happens to sessions to whoever watches them, on this instance.
package final class SessionEventHub: SessionListener {
  package enum Event: Sendable, Equatable {
    case started(Session)
    case ended(EndedSession)
    case mergeFailed(FailedMerge)
  }

  package struct Watch: Sendable {
    package let events: AsyncStream<Event>
    let subject: SubjectID
    let number: UInt64
  }

  private struct State {
    var next: UInt64 = 0
    var count = 0
    var isDraining = false
    var watchers: [SubjectID: [UInt64: AsyncStream<Event>.Continuation]] = [:]
  }

  private let state = Mutex(State())

  package init() {}

  /// Nil when the subject or the process has as many watches as it may, and when the service is stopping.
  package func watch(_ subject: SubjectID) -> Watch? {
    state.withLock { state in
      guard !state.isDraining, state.count < Limits.watches,
        state.watchers[subject, default: [:]].count < Limits.watchesPerSubject
      else {
        return nil
      }
      let (events, continuation) = AsyncStream.makeStream(
        of: Event.self, bufferingPolicy: .bufferingNewest(Limits.eventsPerWatch))
      state.next += 1
      state.count += 1
      state.watchers[subject, default: [:]][state.next] = continuation
      return Watch(events: events, subject: subject, number: state.next)
    }
  }

  /// Ends every watch, and lets none begin: the service is stopping.
  package func drain() {
    state.withLock { state in
      state.isDraining = true
      for continuation in state.watchers.values.flatMap(\.values) { continuation.finish() }
    }
  }

  package func leave(_ watch: Watch) {
    let continuation = state.withLock { state -> AsyncStream<Event>.Continuation? in
      guard let continuation = state.watchers[watch.subject]?.removeValue(forKey: watch.number) else { return nil }
      if state.watchers[watch.subject]?.isEmpty == true { state.watchers[watch.subject] = nil }
      state.count -= 1
      return continuation
    }
    continuation?.finish()
  }

  package func sessionsChanged(_ changes: SessionChanges) {
    state.withLock { state in
      guard state.count > 0 else { return }
      // What ends makes room for what begins: told in that order, a list never shows both.
      for ended in changes.ended {
        for continuation in state.watchers[ended.subject, default: [:]].values { continuation.yield(.ended(ended)) }
      }
      for merge in changes.failedMerges {
        for continuation in state.watchers[merge.target, default: [:]].values {
          continuation.yield(.mergeFailed(merge))
        }
      }
      for session in changes.began {
        for continuation in state.watchers[session.subject, default: [:]].values {
          continuation.yield(.started(session))
        }
      }
    }
  }

  /// Watches that are open.
  package var count: Int { state.withLock { $0.count } }
}
