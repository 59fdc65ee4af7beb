import GRPC
import Testing

@Suite("A client's patience")
struct ClientPolicyTests {
  @Test("backoff grows to its maximum and spreads by its jitter")
  func backoff() {
    let backoff = Backoff(initial: .seconds(1), multiplier: 2, maximum: .seconds(5), jitter: 0.2)
    let means = (1...5).map { backoff.delay(failures: $0, random: 0.5) }
    #expect(means == [.seconds(1), .seconds(2), .seconds(4), .seconds(5), .seconds(5)])
    #expect(backoff.delay(failures: 1, random: 0) == .milliseconds(800))
    #expect(backoff.delay(failures: 1_000_000, random: 0.999) < .seconds(6))
    #expect(backoff.delay(failures: 0, random: 0.5) == .seconds(1))
  }

  func decide(
    code: StatusCode,
    _ progress: RetryPolicy.Progress,
    pushback: RetryPushback = .none,
    attempts: Int = 1,
    refusals: Int = 0,
    isIdempotent: Bool = false
  ) -> RetryPolicy.Decision {
    RetryPolicy(maxAttempts: 3).decide(
      RPCError(code, ""),
      progress: progress,
      pushback: pushback,
      attempts: attempts,
      refusals: refusals,
      throttle: RetryThrottle(),
      isIdempotent: isIdempotent,
      random: 0.5
    )
  }

  @Test("what never left is repeated at once, what was refused unseen as well, for a while")
  func transparent() {
    #expect(decide(code: .unavailable, .notSent, attempts: 100) == .again)
    #expect(decide(code: .unavailable, .refused, refusals: 1) == .again)
    #expect(decide(code: .unavailable, .refused, refusals: 3) == .after(.milliseconds(20)))
    #expect(decide(code: .unavailable, .refused, attempts: 3, refusals: 6) == .giveUp)
  }

  @Test("an answered call is never repeated, a lost one only when that is harmless")
  func progress() {
    #expect(decide(code: .unavailable, .answered) == .giveUp)
    #expect(decide(code: .unavailable, .lost) == .giveUp)
    #expect(decide(code: .unavailable, .lost, isIdempotent: true) == .after(.milliseconds(100)))
    #expect(decide(code: .unavailable, .unanswered) == .after(.milliseconds(100)))
    #expect(decide(code: .internal, .unanswered) == .giveUp)
    #expect(decide(code: .unavailable, .unanswered, attempts: 3) == .giveUp)
  }

  @Test("pushback goes before the backoff, not before the number of attempts")
  func pushback() {
    #expect(decide(code: .unavailable, .unanswered, pushback: .after(.seconds(9))) == .after(.seconds(9)))
    #expect(decide(code: .unavailable, .unanswered, pushback: .never) == .giveUp)
    #expect(decide(code: .unavailable, .unanswered, pushback: .after(.zero), attempts: 3) == .giveUp)
  }

  @Test("successes give the budget back")
  func budget() {
    let policy = RetryPolicy()
    let throttle = RetryThrottle(maximum: 2, ratio: 0.5)
    func fail() -> RetryPolicy.Decision {
      policy.decide(
        RPCError(.unavailable, ""),
        progress: .unanswered,
        pushback: .none,
        attempts: 1,
        refusals: 0,
        throttle: throttle,
        isIdempotent: false,
        random: 0.5
      )
    }
    #expect(fail() == .giveUp)
    for _ in 0..<4 { throttle.recordSuccess() }
    throttle.recordSuccess()
    // Full again at 2; one failure leaves half, which is not more than half.
    #expect(fail() == .giveUp)
    let roomy = RetryThrottle(maximum: 10)
    let decisions = (0..<6).map { _ in
      policy.decide(
        RPCError(.unavailable, ""),
        progress: .unanswered,
        pushback: .none,
        attempts: 1,
        refusals: 0,
        throttle: roomy,
        isIdempotent: false,
        random: 0.5
      )
    }
    #expect(decisions.filter { $0 != .giveUp }.count == 4)
  }

  @Test("an outbound call ends no later than the inbound one that it serves")
  func propagation() {
    let now = ContinuousClock.now
    let context = ServerContext(
      method: RPCMethod(path: "/a/b", kind: .unary),
      deadline: now.advanced(by: .seconds(2))
    )
    #expect(CallOptions().within(context, now: now).timeout == .seconds(2))
    #expect(CallOptions(timeout: .seconds(1)).within(context, now: now).timeout == .seconds(1))
    #expect(CallOptions(timeout: .seconds(9)).within(context, reserve: .seconds(1), now: now).timeout == .seconds(1))
    let late = now.advanced(by: .seconds(3))
    #expect(CallOptions().within(context, now: late).timeout == .zero)
    let endless = ServerContext(method: RPCMethod(path: "/a/b", kind: .unary))
    #expect(CallOptions().within(endless).timeout == nil)
  }
}
