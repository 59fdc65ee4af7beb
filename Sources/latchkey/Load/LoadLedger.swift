import LoadTest
import Synchronization

/// What all workers of a process share: the recorder, the numbers that the next operations get, and the time.
///
/// A lock for a few lines of plain data: at most some thousand operations a second come by.
final class LoadLedger: Sendable {
  private let recorder = Mutex(LoadRecorder())
  private let nextNumber = Atomic<Int>(0)
  private let stopped = Atomic<Bool>(false)
  let start: ContinuousClock.Instant

  init(start: ContinuousClock.Instant) { self.start = start }

  func takeNumber() -> Int { nextNumber.wrappingAdd(1, ordering: .relaxed).oldValue }

  func note(_ change: (inout LoadRecorder) -> Void) {
    recorder.withLock { change(&$0) }
  }

  var now: Duration { start.duration(to: .now) }

  /// The run ends early: what is under way is finished, and nothing begun.
  func stop() { stopped.store(true, ordering: .relaxed) }

  var isStopped: Bool { stopped.load(ordering: .relaxed) }

  /// Waits for that time of the run. False when the run ended first.
  func sleep(until time: Duration) async -> Bool {
    while !isStopped {
      let left = time - now
      guard left > .zero else { return true }
      // In slices, so that a stop is seen soon.
      try? await Task.sleep(for: min(left, .milliseconds(100)), tolerance: .zero)
    }
    return false
  }

  func snapshot() -> LoadRecorder { recorder.withLock { $0 } }

  /// Done and failed so far, without copying what was recorded.
  var counts: LoadCounts {
    recorder.withLock { recorder in
      recorder.seconds.reduce(into: LoadCounts()) { sum, second in
        sum.done += second.done
        sum.failed += second.failed
      }
    }
  }
}

/// How far a run is.
struct LoadCounts: Sendable, Equatable {
  var done = 0
  var failed = 0

  static func + (one: LoadCounts, other: LoadCounts) -> LoadCounts {
    LoadCounts(done: one.done + other.done, failed: one.failed + other.failed)
  }
}
