import LoadTest
import Synchronization

/// The recorder that all workers of a process share, and the numbers that the next operation gets.
///
/// A lock for a few lines of plain data: at most some thousand operations a second come by.
final class LoadLedger: Sendable {
  private let recorder = Mutex(LoadRecorder())
  private let nextNumber = Atomic<Int>(0)
  let start: ContinuousClock.Instant

  init(start: ContinuousClock.Instant) { self.start = start }

  func takeNumber() -> Int { nextNumber.wrappingAdd(1, ordering: .relaxed).oldValue }

  func note(_ change: (inout LoadRecorder) -> Void) {
    recorder.withLock { change(&$0) }
  }

  var now: Duration { start.duration(to: .now) }

  func snapshot() -> LoadRecorder { recorder.withLock { $0 } }

  /// Done and failed so far, without copying what was recorded.
  var counts: (done: Int, failed: Int) {
    recorder.withLock { recorder in
      recorder.seconds.reduce(into: (0, 0)) { sum, second in
        sum.0 += second.done
        sum.1 += second.failed
      }
    }
  }
}
