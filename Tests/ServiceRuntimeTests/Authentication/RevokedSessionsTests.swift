import GRPC
import Synchronization
import Testing

@testable import ServiceRuntime

@Suite("Revoked sessions")
struct RevokedSessionsTests {
  /// An authority that a test makes forgetful.
  final class Authority: SessionAuthority {
    let state = Mutex((ended: false, current: true))

    func hasEnded(_ subject: AuthenticatedSubject) -> Bool { state.withLock { $0.ended } }

    var isCurrent: Bool { state.withLock { $0.current } }
  }

  @Test("R14: what ended is remembered for as long as its tokens hold, and not for ever")
  func retention() {
    let revoked = RevokedSessions()
    let start = ContinuousClock.now
    revoked.take(["a"], isCaughtUp: true, retention: .seconds(960), at: start)
    #expect(revoked.contains("a") && !revoked.contains("b"))
    // However often identity says that nothing else ended.
    for second in 1..<960 {
      revoked.take([], isCaughtUp: true, retention: .seconds(960), at: start + .seconds(second))
      #expect(revoked.contains("a"))
    }
    revoked.take(["b"], isCaughtUp: true, retention: .seconds(960), at: start + .seconds(959))
    revoked.take([], isCaughtUp: true, retention: .seconds(960), at: start + .seconds(960))
    #expect(revoked.contains("a") && revoked.contains("b"))
    revoked.take([], isCaughtUp: true, retention: .seconds(960), at: start + .seconds(1920))
    #expect(!revoked.contains("a") && revoked.count == 0)
  }

  @Test("a list that is told in part counts as unknown until the rest has come")
  func catchingUp() {
    let revoked = RevokedSessions()
    let start = ContinuousClock.now
    revoked.take(["a"], isCaughtUp: false, retention: .seconds(960), at: start)
    #expect(revoked.heard == nil && revoked.contains("a"))
    revoked.take(["b"], isCaughtUp: true, retention: .seconds(960), at: start + .seconds(1))
    #expect(revoked.heard == start + .seconds(1) && revoked.contains("b"))
  }

  @Test("R41: while nobody can say which sessions have ended no token is accepted, and the client may try again")
  func unknown() throws {
    let authority = Authority()
    let fixture = try TokenFixture(sessions: authority)
    let token = try fixture.token(fixture.claims())
    func refusal() -> RPCError? {
      do throws(RPCError) {
        _ = try fixture.authenticator.authenticate(token)
        return nil
      } catch {
        return error
      }
    }
    #expect(refusal() == nil)
    authority.state.withLock { $0.current = false }
    #expect(refusal()?.code == .unavailable)
    #expect(refusal()?.details.retryAfter == .seconds(1))
    authority.state.withLock { $0.ended = true }
    #expect(refusal()?.details.reason == "SESSION_REVOKED")
    authority.state.withLock { $0 = (false, true) }
    #expect(refusal() == nil)
  }
}
