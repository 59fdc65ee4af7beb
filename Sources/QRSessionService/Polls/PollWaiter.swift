/// Why a waiting poll goes on.
enum PollWake: Sendable {
  /// There is a later version, or the session is over or gone.
  case changed
  case timedOut
  /// Too many others wait for the session.
  case displaced
  /// The service ends: nobody waits any more.
  case stopping
  case cancelled
}

/// A poll or a watch that waits for its session to change.
struct PollWaiter: Sendable {
  enum Sleeper: Sendable {
    case task(CheckedContinuation<PollWake, Never>)
    case watch(SessionWatch)
  }

  let number: UInt64
  let sleeper: Sleeper

  /// Not to be called under the shard's lock.
  func resume(_ wake: PollWake) {
    switch sleeper {
    case .task(let continuation): continuation.resume(returning: wake)
    case .watch(let watch): watch.woken(wake)
    }
  }
}

/// When a waiting poll has waited long enough. Stays behind when the poll was woken earlier; its number then finds
/// nobody.
struct PollTimeout: Comparable, Sendable {
  let due: ContinuousClock.Instant
  let slot: UInt32
  let number: UInt64

  static func < (left: PollTimeout, right: PollTimeout) -> Bool { left.due < right.due }
}
