import LatchkeyModel
import Synchronization

/// The other services that watch sessions end, and what waits to be told to them.
package final class RevocationWatches: Sendable {
  package struct Watch: Sendable {
    /// Sessions that ended at once; none for a sign of life.
    package let batches: AsyncStream<[SessionID]>
    let number: UInt64
  }

  private struct State {
    var next: UInt64 = 0
    var isDraining = false
    var watchers: [UInt64: AsyncStream<[SessionID]>.Continuation] = [:]
  }

  private let state = Mutex(State())

  package init() {}

  /// Nil when there are as many watches as there may be, and when the service is stopping.
  package func watch() -> Watch? {
    state.withLock { state in
      guard !state.isDraining, state.watchers.count < Limits.revocationWatches else { return nil }
      let (batches, continuation) = AsyncStream.makeStream(
        of: [SessionID].self, bufferingPolicy: .bufferingOldest(Limits.batchesPerRevocationWatch))
      state.next += 1
      state.watchers[state.next] = continuation
      return Watch(batches: batches, number: state.next)
    }
  }

  package func leave(_ watch: Watch) {
    let continuation = state.withLock { $0.watchers.removeValue(forKey: watch.number) }
    continuation?.finish()
  }

  /// Tells every watcher. One that is too far behind is ended: it comes back and is told everything.
  package func tell(_ sessions: [SessionID]) {
    let lost = state.withLock { state in
      var lost: [AsyncStream<[SessionID]>.Continuation] = []
      for (number, continuation) in state.watchers {
        if case .dropped = continuation.yield(sessions) {
          state.watchers[number] = nil
          lost.append(continuation)
        }
      }
      return lost
    }
    for continuation in lost { continuation.finish() }
  }

  /// A sign of life to every watcher.
  package func beat() { tell([]) }

  /// Ends every watch, and lets none begin: the service is stopping.
  package func drain() {
    let continuations = state.withLock { state in
      state.isDraining = true
      defer { state.watchers = [:] }
      return Array(state.watchers.values)
    }
    for continuation in continuations { continuation.finish() }
  }

  /// Watches that are open.
  package var count: Int { state.withLock { $0.watchers.count } }
}
