import CPostgreSQL
import Glibc

/// A counter that wakes the thread that waits for it.
@safe final class PostgreSQLWake: Sendable {
  private let descriptor: Int32

  /// Nil when the system has no descriptor left.
  init?() {
    descriptor = latchkey_event_counter()
    if descriptor < 0 { return nil }
  }

  deinit { close(descriptor) }

  func signal() {
    var one: UInt64 = 1
    // Reads the eight bytes of `one`; a counter that is full wakes as well.
    _ = unsafe write(descriptor, &one, 8)
  }

  private func drain() {
    var count: UInt64 = 0
    // Fills the eight bytes of `count`; nothing to read is as well.
    _ = unsafe read(descriptor, &count, 8)
  }

  enum Event { case woken, readable, timeout }

  /// Waits to be woken, for something to read from `socket`, or for the time to be over.
  func wait(orReadable socket: Int32?, for time: Duration) -> Event {
    var entries = [
      pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: socket ?? -1, events: Int16(POLLIN), revents: 0),
    ]
    // Fills the two entries; one with a negative descriptor is passed over.
    let count = unsafe poll(&entries, 2, PostgreSQLPoll.milliseconds(time))
    if entries[0].revents != 0 {
      drain()
      return .woken
    }
    if entries[1].revents != 0 { return .readable }
    // A signal that came in between looks like a timeout that came early.
    return count < 0 ? .woken : .timeout
  }
}

/// Waiting for a connection's socket.
enum PostgreSQLPoll {
  /// False: the time is over.
  static func wait(_ socket: Int32, toWrite: Bool, until deadline: ContinuousClock.Instant) -> Bool {
    while true {
      let left = ContinuousClock.now.duration(to: deadline)
      guard left > .zero else { return false }
      var entry = pollfd(fd: socket, events: Int16(toWrite ? POLLIN | POLLOUT : POLLIN), revents: 0)
      // Fills the one entry.
      if unsafe poll(&entry, 1, milliseconds(left)) > 0 { return true }
    }
  }

  /// At least one, and at most a day.
  static func milliseconds(_ time: Duration) -> Int32 {
    let (seconds, attoseconds) = time.components
    return Int32(min(max(seconds, 0), 86_400)) * 1000 + Int32(attoseconds / 1_000_000_000_000_000) + 1
  }
}
