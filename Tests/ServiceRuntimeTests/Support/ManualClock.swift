import LatchkeyModel
import Synchronization

/// A time of day that a test sets.
final class ManualClock: WallClock {
  private let time: Mutex<Timestamp>

  init(_ time: Timestamp = Timestamp(secondsSinceEpoch: 1_800_000_000)) {
    self.time = Mutex(time)
  }

  func now() -> Timestamp { time.withLock { $0 } }

  func advance(_ duration: Duration) {
    time.withLock { $0 = $0 + duration }
  }
}
