import LatchkeyModel
import Synchronization

/// A time of day that stands still until the test moves it.
package final class ManualClock: WallClock {
  private let time: Mutex<Timestamp>

  package init(_ start: Timestamp = Timestamp(secondsSinceEpoch: 1_800_000_000)) {
    time = Mutex(start)
  }

  package func now() -> Timestamp { time.withLock { $0 } }

  package func advance(by duration: Duration) { time.withLock { $0 = $0 + duration } }
}
