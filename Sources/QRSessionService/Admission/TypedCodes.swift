import GRPC
import LatchkeyModel
import ServiceRuntime

/// What keeps codes that people type from being guessed, whoever guesses (S15, S27).
///
/// The 34 bits of a typed code are few, and accounts are many. So wrong ones count for everybody together: after a few
/// a typed code takes the screen's digits, and after many it holds on the screen's own network only. That costs an
/// honest person two digits, or the use of the camera, and locks nobody out. `Limits.typedCodes` has the arithmetic.
struct TypedCodes: Sendable {
  /// What a typed code takes besides being right.
  struct Terms: Sendable, Equatable {
    /// The screen's digits.
    let takesDigits: Bool
    /// Being typed behind the same address as the screen.
    let takesOwnNetwork: Bool
  }

  private let sources: RateLimiter<String>
  private let unaided: RateLimiter<Bool>
  private let all: RateLimiter<Bool>

  init(lifetime: Duration) {
    sources = RateLimiter(Rate(Limits.typedCodesPerSource, per: lifetime))
    unaided = RateLimiter(Rate(Limits.unaidedTypedCodes, per: lifetime * Limits.unaidedLives))
    all = RateLimiter(Rate(Limits.typedCodes, per: lifetime))
  }

  /// Takes a try before the code is looked at, so that guesses at the same time count like any others.
  func spend(_ source: String, at now: Timestamp) throws(RPCError) -> Terms {
    if let wait = sources.spend(source, at: now) {
      throw .rateLimited("wrong codes typed on this network", retryAfter: wait)
    }
    if unaided.spend(true, at: now) == nil { return Terms(takesDigits: false, takesOwnNetwork: false) }
    return Terms(takesDigits: true, takesOwnNetwork: all.spend(true, at: now) != nil)
  }

  /// The code was right, or was not looked at.
  func refund(_ terms: Terms, _ source: String, at now: Timestamp) {
    sources.refund(source, at: now)
    guard terms.takesDigits else { return unaided.refund(true, at: now) }
    if !terms.takesOwnNetwork { all.refund(true, at: now) }
  }
}
