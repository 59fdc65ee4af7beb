import LatchkeyModel
import Synchronization

/// A clock that stands still until it is told to move.
final class TestClock: WallClock {
  private let time: Mutex<Timestamp>

  init(_ start: Timestamp = Timestamp(secondsSinceEpoch: 1_800_000_000)) {
    time = Mutex(start)
  }

  func now() -> Timestamp { time.withLock { $0 } }

  func advance(by duration: Duration) { time.withLock { $0 = $0 + duration } }
}
