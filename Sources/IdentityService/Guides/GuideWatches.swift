import LatchkeyModel
import ServiceRuntime
import Storage
import Synchronization

/// Tells whoever watches a guide at this instance that there may be something new. What it is they read from storage,
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
    let session: SessionID?
    let continuation: AsyncStream<Void>.Continuation
  }

  private struct State {
    var isDraining = false
    var watches = WatchTable<Watcher>(Limits.watchBounds)
  }

  private let state = Mutex(State())

  package init() {}

  /// Watches that are open.
  package var count: Int { state.withLock { $0.watches.count } }

  /// Whether the service is stopping: what ended a watch of a live session, if not its place being taken.
  package var isDraining: Bool { state.withLock { $0.isDraining } }

  /// Nil when the session, the device, the subject or the process has as many watches as it may, and when the service is
  /// stopping. The changes of a watch whose place another takes end.
  package func watch(_ guide: GuideID, by holder: WatchHolder) -> Watch? {
    let (changes, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    continuation.yield()
    let watcher = Watcher(guide: guide, session: holder.session, continuation: continuation)
    let entrance = state.withLock { state in
      state.isDraining ? .refused : state.watches.enter(holder, watcher)
    }
    switch entrance {
    case .entered(let number):
      return Watch(changes: changes, subject: holder.subject, number: number)
    case .inPlaceOf(let displaced, let number):
      displaced.continuation.finish()
      return Watch(changes: changes, subject: holder.subject, number: number)
    case .refused:
      return nil
    }
  }

  package func leave(_ watch: Watch) {
    let watcher = state.withLock { $0.watches.leave(watch.number, of: watch.subject) }
    watcher?.continuation.finish()
  }

  /// The definitions are others now.
  package func definitionsChanged() {
    state.withLock { state in
      for watcher in state.watches.watchers { watcher.continuation.yield() }
    }
  }

  package func sessionsChanged(_ changes: SessionChanges) {
    guard !changes.ended.isEmpty || !changes.guides.isEmpty else { return }
    state.withLock { state in
      guard state.watches.count > 0 else { return }
      for change in changes.guides {
        for watcher in state.watches.watchers(of: change.subject) where change.guide ?? watcher.guide == watcher.guide {
          watcher.continuation.yield()
        }
      }
      for ended in changes.ended {
        for watcher in state.watches.watchers(of: ended.subject) where watcher.session == ended.id {
          watcher.continuation.finish()
        }
      }
    }
  }

  /// Whoever watches looks anew.
  package func newsMissed() { definitionsChanged() }

  /// Ends every watch, and lets none begin: the service is stopping.
  package func drain() {
    state.withLock { state in
      state.isDraining = true
      for watcher in state.watches.watchers { watcher.continuation.finish() }
    }
  }
}
