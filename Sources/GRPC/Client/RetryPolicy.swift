/// When a call that failed is tried again. Source: gRFC A6.
package struct RetryPolicy: Sendable {
  /// Tries in all, the first included.
  package var maxAttempts: Int
  package var backoff: Backoff
  package var retryableCodes: Set<StatusCode>

  package init(
    maxAttempts: Int = 4,
    backoff: Backoff = Backoff(initial: .milliseconds(100), multiplier: 2, maximum: .seconds(2)),
    retryableCodes: Set<StatusCode> = [.unavailable]
  ) {
    // gRFC A6 treats more than five attempts as five.
    self.maxAttempts = min(max(1, maxAttempts), 5)
    self.backoff = backoff
    self.retryableCodes = retryableCodes
  }

  /// How far an attempt got before it failed.
  package enum Progress: Sendable {
    /// The request never left this process.
    case notSent
    /// The server says that no application code saw the request (REFUSED_STREAM, or GOAWAY with a lower stream).
    case refused
    /// The server answered with a status and nothing else.
    case unanswered
    /// The connection broke; the server may or may not have acted on the request.
    case lost
    /// The answer had begun: its messages may have been seen.
    case answered
  }

  private static let refusalBackoff = Backoff(initial: .milliseconds(10), multiplier: 2, maximum: .seconds(1))

  package enum Decision: Sendable, Equatable {
    /// Try again at once; counts as no attempt.
    case again
    /// Try again after a wait.
    case after(Duration)
    case giveUp
  }

  /// What to do about a failure.
  ///
  /// - Parameters:
  ///   - attempts: how many have failed, this one included and transparent ones not.
  ///   - refusals: how many the server refused unseen, this one included.
  ///   - throttle: is told of the failure, and may forbid the retry.
  ///   - isIdempotent: the server may act on the call twice.
  ///   - random: uniform in 0..<1.
  package func decide(
    _ error: RPCError,
    progress: Progress,
    pushback: RetryPushback,
    attempts: Int,
    refusals: Int,
    throttle: RetryThrottle,
    isIdempotent: Bool,
    random: Double
  ) -> Decision {
    switch progress {
    case .notSent: return .again
    // "Transparent retries". The first at once, as the server may only have been on its way out; then a little later
    // each time, because servers also refuse what exceeds their streams while they tidy up those that ended.
    case .refused where refusals == 1: return .again
    case .refused where refusals <= Limits.refusals:
      return .after(Self.refusalBackoff.delay(failures: refusals - 1, random: random))
    case .answered: return .giveUp
    case .lost where !isIdempotent: return .giveUp
    case .refused, .unanswered, .lost: break
    }
    guard retryableCodes.contains(error.code) else { return .giveUp }
    let isAllowed = throttle.recordFailure()
    guard isAllowed, attempts < maxAttempts else { return .giveUp }
    switch pushback {
    case .never: return .giveUp
    case .after(let wait): return .after(wait)
    case .none: return .after(backoff.delay(failures: attempts, random: random))
    }
  }
}
