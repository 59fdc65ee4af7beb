/// How soon a secret may be tried again after it was wrong several times in a row.
///
/// A few tries are free, then each doubles the wait; from the hundredth on (NIST SP 800-63B-4 section 3.2.2 allows no
/// more in a row) the wait is long. Nothing is locked for ever, so nobody can lock an owner out for good, and a device
/// that the account was used on, or a network that it was signed in from before, is counted by itself: strangers'
/// mistakes do not slow it down.
///
/// Strangers are counted by network and, all together, for the account, whatever identifier and method they try: 50 at
/// once from everywhere, 100 within four hours, then 24 a day.
package struct AttemptPolicy: Sendable, Equatable {
  package var free: Int64 = 10
  /// Those of all strangers together that are free: more than one network's, so that a second one is not held up by it.
  package var freeTogether: Int64 = 50
  package var firstWait: Duration = .seconds(1)
  package var limit: Int64 = 100
  package var longestWait: Duration = .seconds(300)
  package var waitBeyondLimit: Duration = .seconds(3600)

  package init() {}

  /// For a secret as short as a pattern, which nobody can try but on the device that it was made on: three tries, then
  /// half a minute and more between them. The tenth is the last.
  package static let pattern = {
    var policy = AttemptPolicy()
    policy.free = 3
    policy.freeTogether = 3
    policy.firstWait = .seconds(30)
    return policy
  }()

  /// What all strangers together are held to.
  package var together: AttemptPolicy {
    var policy = self
    policy.free = freeTogether
    return policy
  }

  /// How long to wait yet, or nil when another try may be made.
  ///
  /// - Parameters:
  ///   - failures: tries in a row that were not right.
  ///   - last: when the last of them was made.
  package func wait(after failures: Int64, last: Timestamp, at now: Timestamp) -> Duration? {
    let delay = delay(after: failures)
    // Of tries at once, or at two instances, one that was counted before may be later by its clock: while some are free
    // nobody waits for that.
    guard delay > .zero else { return nil }
    let until = last + delay
    // A clock that went back must not stretch the wait beyond what it was meant to be.
    return now < until ? min(until - now, delay) : nil
  }

  package func delay(after failures: Int64) -> Duration {
    if failures < free { return .zero }
    if failures >= limit { return waitBeyondLimit }
    return min(firstWait * (1 << Int(min(failures - free, 20))), longestWait)
  }
}
