/// The pauses between attempts to reach a service: doubling, with jitter so that many clients of a restarted service
/// do not return at once, and an end.
struct Backoff {
  private var attempt = 0

  /// Nil when there have been enough attempts.
  mutating func next(atLeast asked: Duration?) -> Duration? {
    guard attempt < Limits.attempts else { return nil }
    let doubled = Limits.firstPause * (1 << min(attempt, 16))
    attempt += 1
    let longest = min(doubled, Limits.longestPause)
    let jittered = longest * Double.random(in: 0.5...1)
    return max(jittered, asked ?? .zero)
  }

  /// A watch ended before what it watches did. One that brought something new, or lasted, was a good one: what follows
  /// is counted from it.
  mutating func watched(news: Bool, since start: ContinuousClock.Instant) {
    if news || ContinuousClock.now - start >= Limits.longestPause { attempt = 0 }
  }
}
