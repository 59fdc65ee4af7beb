package import NIOCore

/// A token bucket: what may happen in a burst, and how fast it fills again.
package struct Budget: Sendable {
  package struct Rate: Sendable {
    package var burst: Int
    package var perSecond: Int

    package init(burst: Int, perSecond: Int) {
      self.burst = burst
      self.perSecond = perSecond
    }
  }

  private let rate: Rate
  private var tokens: Int
  private var refilled: NIODeadline

  package init(_ rate: Rate, now: NIODeadline) {
    self.rate = rate
    tokens = rate.burst
    refilled = now
  }

  /// Takes one token. False when none is left.
  package mutating func spend(now: NIODeadline) -> Bool {
    if tokens == 0 { refill(now: now) }
    guard tokens > 0 else { return false }
    tokens -= 1
    return true
  }

  /// Tokens that are there to spend.
  package mutating func left(now: NIODeadline) -> Int {
    refill(now: now)
    return tokens
  }

  /// Gives one token back, for something that did work.
  package mutating func earn() {
    if tokens < rate.burst { tokens += 1 }
  }

  private mutating func refill(now: NIODeadline) {
    let elapsed = (now - refilled).nanoseconds
    let earned = Int(elapsed / 1_000_000) * rate.perSecond / 1000
    guard earned > 0 else { return }
    tokens = min(rate.burst, tokens + earned)
    refilled = now
  }
}
