internal import Synchronization

/// A channel's budget for retries: when more than a few percent of calls fail, retries stop and leave the server the
/// air to recover. Source: gRFC A6, "Throttling Retry Attempts and Hedged RPCs".
package final class RetryThrottle: Sendable {
  private let maximum: Double
  private let ratio: Double
  /// Two numbers changed once per call: an actor would suspend each call.
  private let tokens: Mutex<Double>

  /// - Parameters:
  ///   - maximum: the tokens there are at first and at most; each failure takes one.
  ///   - ratio: what each success gives back.
  package init(maximum: Double = 10, ratio: Double = 0.1) {
    self.maximum = maximum
    self.ratio = ratio
    tokens = Mutex(maximum)
  }

  /// A call that may be retried failed: answers whether the budget allows the retry.
  func recordFailure() -> Bool {
    tokens.withLock { tokens in
      tokens = max(0, tokens - 1)
      return tokens > maximum / 2
    }
  }

  /// A call ended well, or in a way that a retry does not help.
  package func recordSuccess() {
    tokens.withLock { $0 = min(maximum, $0 + ratio) }
  }
}
