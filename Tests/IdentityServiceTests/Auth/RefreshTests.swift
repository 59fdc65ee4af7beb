import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Refresh")
struct RefreshTests {
  @Test("R18: a refresh gives a new pair; the token before the parent ends the session")
  func rotation() async throws {
    let harness = try await IdentityHarness()
    let first = try await harness.register("ada@example.com").tokens
    let second = try await harness.refresh(first)
    let third = try await harness.refresh(second)
    #expect(Set([first?.refreshToken, second.refreshToken, third.refreshToken]).count == 3)
    #expect(second.sid == first?.sid && third.sid == first?.sid)
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_REUSED") { try await harness.refresh(first) }
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_REUSED") { try await harness.refresh(third) }
    #expect(try await !harness.isActive(third.accessToken))
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.logOut(third) }
  }

  @Test("R19: a lost refresh answer is given again, also after a restart, until its child is used")
  func lostAnswer() async throws {
    var harness = try await IdentityHarness()
    let first = try await harness.register("ada@example.com").tokens
    let lost = try await harness.refresh(first)
    harness.clock.advance(by: .seconds(3600))
    harness = try await harness.restarted()
    let again = try await harness.refresh(first)
    #expect(again.refreshToken == lost.refreshToken)
    let next = try await harness.refresh(again)
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_REUSED") { try await harness.refresh(first) }
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_REUSED") { try await harness.refresh(next) }
  }

  @Test("R19: a day later the parent no longer brings its child")
  func graceOver() async throws {
    let harness = try await IdentityHarness()
    let first = try await harness.register("ada@example.com").tokens
    let second = try await harness.refresh(first)
    harness.clock.advance(by: .seconds(86_400))
    _ = try await harness.refresh(first)
    harness.clock.advance(by: .milliseconds(1))
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_REUSED") { try await harness.refresh(first) }
    #expect(try await !harness.isActive(second.accessToken))
  }

  @Test("R18, R19: 1,000 concurrent double refreshes: each pair gets one and the same child, and no session is lost")
  func concurrentDoubleRefresh() async throws {
    let harness = try await IdentityHarness()
    var families: [CommonV1.TokenSet] = []
    for index in 0..<50 { families.append(try await harness.register("ada\(index)@example.com").tokens.orThrow()) }
    for _ in 0..<20 {
      families = try await withThrowingTaskGroup(of: CommonV1.TokenSet.self) { group in
        for tokens in families {
          group.addTask {
            async let left = harness.refresh(tokens)
            async let right = harness.refresh(tokens)
            let (one, other) = try await (left, right)
            #expect(one.refreshToken == other.refreshToken)
            #expect(one.refreshToken != tokens.refreshToken)
            return one
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
    }
    #expect(Set(families.map(\.sid)).count == 50)
  }

  @Test("R20: idle and absolute limits hold to the second")
  func limits() async throws {
    var lifetimes = TokenLifetimes()
    lifetimes.refreshIdle = .seconds(1000)
    lifetimes.refreshAbsoluteAccount = .seconds(2500)
    let harness = try await IdentityHarness(lifetimes: lifetimes)
    let idle = try await harness.register("ada@example.com").tokens
    var used = try await harness.register("bob@example.com").tokens
    #expect(idle?.refreshExpiresIn == 1000)
    harness.clock.advance(by: .seconds(999))
    used = try await harness.refresh(used)
    harness.clock.advance(by: .seconds(1))
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_INVALID") { try await harness.refresh(idle) }
    harness.clock.advance(by: .seconds(998))
    used = try await harness.refresh(used)
    #expect(used?.refreshExpiresIn == 502)
    harness.clock.advance(by: .seconds(502))
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_INVALID") { try await harness.refresh(used) }
  }

  @Test("R13: guests, accounts and QR sessions have the documented lifetimes")
  func defaults() {
    let lifetimes = TokenLifetimes()
    #expect(lifetimes.access == .seconds(900))
    #expect(lifetimes.family(isGuest: true, method: .guest).absolute == .seconds(180 * 86_400))
    #expect(lifetimes.family(isGuest: false, method: .password).absolute == .seconds(90 * 86_400))
    #expect(lifetimes.family(isGuest: false, method: .qr).absolute == .seconds(30 * 86_400))
    #expect(lifetimes.family(isGuest: false, method: .password).idle == .seconds(30 * 86_400))
    #expect(lifetimes.refreshParentGrace == .seconds(86_400))
  }

  @Test("R4: a refresh token with any bit changed is refused, and changes nothing")
  func tampering() async throws {
    let harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    let bytes = try Base64URL.decode(tokens.refreshToken.dropFirst(4)).orThrow()
    for index in bytes.indices {
      var changed = bytes
      changed[index] ^= 0x10
      await expectRefusal(.unauthenticated, "REFRESH_TOKEN_INVALID") {
        try await harness.refresh(CommonV1.TokenSet(refreshToken: "lkr_" + Base64URL.encode(changed)))
      }
    }
    _ = try await harness.refresh(tokens)
  }

  @Test("R8: a token is good for its own purpose only", arguments: ["access", "ticket", "challenge", "service", "x"])
  func purposes(kind: String) async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let account = try await harness.register("ada@example.com")
    let presented: String
    switch kind {
    case "access": presented = try account.tokens.orThrow().accessToken
    case "ticket":
      presented = try await harness.signIn("ada@example.com", guest: guest.tokens).conflict.orThrow().linkTicket
    case "challenge": presented = try await harness.challenge(for: device)
    case "service": presented = "lks_" + String(repeating: "A", count: 43)
    default: presented = "x"
    }
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_INVALID") {
      try await harness.refresh(CommonV1.TokenSet(refreshToken: presented))
    }
    let refreshAsAccess = CommonV1.TokenSet(accessToken: try account.tokens.orThrow().refreshToken)
    await expectRefusal(.unauthenticated, "TOKEN_INVALID") { try await harness.logOut(refreshAsAccess) }
  }

  @Test("R1: refresh tokens carry 256 unpredictable bits: 10,000 are unique")
  func unique() async throws {
    let harness = try await IdentityHarness()
    let mint = harness.core.tokens.refresh
    var seen: Set<String> = []
    for _ in 0..<10_000 {
      let draft = SessionDraft(
        client: try ClientID("app.test").orThrow(), method: .password, lifetimes: TokenLifetimes(),
        at: harness.clock.now(), random: harness.core.random
      )
      let session = draft.session(
        of: SubjectID(from: harness.core.random), isGuest: false, deviceKeyThumbprint: nil,
        by: draft.proven(isGuest: false))
      seen.insert(mint.newest(of: session))
    }
    #expect(seen.count == 10_000)
    #expect(seen.allSatisfy { $0.utf8.count == 4 + 75 })
  }
}
