import Glibc

/// Tells the time of day. Passed in wherever time matters, so that a test decides what time it is.
package protocol WallClock: Sendable {
  func now() -> Timestamp
}

/// The machine's clock.
package struct SystemClock: WallClock {
  package init() {}

  package func now() -> Timestamp {
    var time = timespec()
    // `clock_gettime` writes one timespec through the pointer and keeps nothing; CLOCK_REALTIME cannot fail.
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(millisecondsSinceEpoch: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }
}
