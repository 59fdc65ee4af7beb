import LatchkeyModel
import Storage
import Synchronization

/// Tells whoever watches a guide, on this instance, that there may be something new. What it is they read from storage,
/// so a change that is overtaken by another is told once.
package final class GuideWatches: SessionListener {
  package struct Watch: Sendable {
    /// One is there from the beginning; of those that nobody has taken yet, one is kept.
    package let changes: AsyncStream<Void>
    fileprivate let subject: SubjectID
    fileprivate let number: UInt64
  }

  private struct Watcher {
    let guide: GuideID
    let session: SessionID
    let continuation: AsyncStream<Void>.Continuation
  }

  private struct State {
    var next: UInt64 = 0
    var count = 0
    var isDraining = false
    var watchers: [SubjectID: [UInt64: Watcher]] = [:]
  }

  private let state = Mutex(State())

  package init() {}

  /// Watches that are open.
  package var count: Int { state.withLock { $0.count } }

  /// Nil when the subject or the process has as many watches as it may, and when the service is stopping.
  package func watch(_ guide: GuideID, of subject: SubjectID, by session: SessionID) -> Watch? {
    state.withLock { state in
      guard !state.isDraining, state.count < Limits.watches,
        state.watchers[subject, default: [:]].count < Limits.watchesPerSubject
      else { return nil }
      let (changes, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
      continuation.yield()
      state.next += 1
      state.count += 1
      state.watchers[subject, default: [:]][state.next] = Watcher(
        guide: guide, session: session, continuation: continuation)
      return Watch(changes: changes, subject: subject, number: state.next)
    }
  }

  package func leave(_ watch: Watch) {
    let watcher = state.withLock { state -> Watcher? in
      guard let watcher = state.watchers[watch.subject]?.removeValue(forKey: watch.number) else { return nil }
      if state.watchers[watch.subject]?.isEmpty == true { state.watchers[watch.subject] = nil }
      state.count -= 1
      return watcher
    }
    watcher?.continuation.finish()
  }

  package func changed(_ guide: GuideID, of subject: SubjectID) {
    state.withLock { state in
      for watcher in state.watchers[subject, default: [:]].values where watcher.guide == guide {
        watcher.continuation.yield()
      }
    }
  }

  /// A guest's progress may have become the account's, in any guide.
  package func changed(of subject: SubjectID) {
    state.withLock { state in
      for watcher in state.watchers[subject, default: [:]].values { watcher.continuation.yield() }
    }
  }

  /// The definitions are others now.
  package func definitionsChanged() {
    state.withLock { state in
      for watcher in state.watchers.values.flatMap(\.values) { watcher.continuation.yield() }
    }
  }

  package func sessionsChanged(_ changes: SessionChanges) {
    guard !changes.ended.isEmpty else { return }
    state.withLock { state in
      guard state.count > 0 else { return }
      for ended in changes.ended {
        for watcher in state.watchers[ended.subject, default: [:]].values where watcher.session == ended.id {
          watcher.continuation.finish()
        }
      }
    }
  }

  /// Ends every watch, and lets none begin: the service is stopping.
  package func drain() {
    state.withLock { state in
      state.isDraining = true
      for watcher in state.watchers.values.flatMap(\.values) { watcher.continuation.finish() }
    }
  }
}
