import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import Testing

@testable import IdentityService

@Suite("Ending sessions")
struct SessionEndTests {
  private func isRefused(_ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?) async -> Bool {
    do throws(RPCError) {
      _ = try await harness.auth.introspect(
        IdentityV1.IntrospectRequest(token: "x"), options: .bearer(tokens))
      return false
    } catch {
      return error.details.reason == "SESSION_REVOKED"
    }
  }

  @Test("R14: a logged-out access token is inactive and refused at once, also after a restart")
  func logout() async throws {
    var harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    #expect(try await harness.isActive(tokens.accessToken))
    #expect(try await harness.isActive(tokens.refreshToken))
    #expect(await !isRefused(harness, tokens))
    #expect(try await harness.logOut(tokens).sessionsEnded == 1)
    for _ in 0..<2 {
      #expect(try await !harness.isActive(tokens.accessToken))
      #expect(try await !harness.isActive(tokens.refreshToken))
      #expect(await isRefused(harness, tokens))
      await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(tokens) }
      harness = try await harness.restarted()
    }
  }

  @Test("Logout reaches this session, the others, or all of them")
  func reach() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    func signedIn(_ count: Int) async throws -> [CommonV1.TokenSet] {
      var tokens: [CommonV1.TokenSet] = []
      for _ in 0..<count { tokens.append(try await harness.signIn("ada@example.com").tokens.orThrow()) }
      return tokens
    }
    let (a, b, c) = (try await signedIn(1)[0], try await signedIn(1)[0], try await signedIn(1)[0])
    // The registration's own session is the third of the others.
    #expect(try await harness.logOut(a, scope: .others).sessionsEnded == 3)
    #expect(try await harness.isActive(a.accessToken))
    for other in [b, c] { #expect(try await !harness.isActive(other.accessToken)) }
    let d = try await signedIn(1)[0]
    #expect(try await harness.logOut(d, scope: .global).sessionsEnded == 2)
    for ended in [a, d] { #expect(try await !harness.isActive(ended.accessToken)) }
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.logOut(d) }
  }

  @Test("R40: logging out everywhere touches no other account")
  func otherAccounts() async throws {
    let harness = try await IdentityHarness()
    let ada = try await harness.register("ada@example.com").tokens
    let bob = try await harness.register("bob@example.com").tokens.orThrow()
    _ = try await harness.logOut(ada, scope: .global)
    #expect(try await harness.isActive(bob.accessToken))
  }

  @Test("G19: logging out to a guest on a device without a key changes nothing")
  func noDevice() async throws {
    let harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    await expectRefusal(.failedPrecondition, "DEVICE_KEY_REQUIRED") {
      try await harness.logOut(tokens, next: .guest)
    }
    #expect(try await harness.isActive(tokens.accessToken))
    await expectRefusal(.invalidArgument, field: "next") {
      try await harness.logOut(tokens, scope: .others, next: .guest)
    }
    await expectRefusal(.invalidArgument, field: "scope") {
      try await harness.logOut(tokens, scope: .unrecognized(7))
    }
  }

  @Test("G19: after promotion, logging out to a guest makes a new one")
  func newGuest() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    let out = try await harness.logOut(account.tokens, next: .guest)
    #expect(out.subject?.isGuest == true)
    #expect(out.subject?.sub != account.subject?.sub)
    #expect(try await harness.isActive(try out.tokens.orThrow().accessToken))
  }

  @Test("Revoking either token ends the session; revoking what is no token is no error", arguments: [true, false])
  func revoke(byAccessToken: Bool) async throws {
    let harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    let token = byAccessToken ? tokens.accessToken : tokens.refreshToken
    _ = try await harness.auth.revoke(IdentityV1.RevokeRequest(token: "nonsense"))
    #expect(try await harness.isActive(tokens.accessToken))
    for _ in 0..<2 { _ = try await harness.auth.revoke(IdentityV1.RevokeRequest(token: token)) }
    #expect(try await !harness.isActive(tokens.accessToken))
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(tokens) }
    await expectRefusal(.invalidArgument, field: "token") {
      try await harness.auth.revoke(IdentityV1.RevokeRequest())
    }
  }

  @Test("R40: a person may ask about that person's tokens only; a service about any; nobody else at all")
  func introspection() async throws {
    let harness = try await IdentityHarness()
    let ada = try await harness.register("ada@example.com")
    let bob = try await harness.register("bob@example.com")
    let request = IdentityV1.IntrospectRequest(token: try ada.tokens.orThrow().accessToken)
    let own = try await harness.auth.introspect(request, options: .bearer(ada.tokens))
    #expect(own.active && own.sub == ada.subject?.sub && own.sid == ada.tokens?.sid)
    #expect(own.scope == "basic profile account" && own.clientID == "app.test" && !own.isGuest)
    #expect(own.iss == "http://identity.test" && own.aud == ["latchkey-identity", "latchkey-qr"])
    #expect(try await harness.auth.introspect(request, options: .service) == own)
    #expect(
      try await harness.auth.introspect(request, options: .bearer(bob.tokens)) == IdentityV1.IntrospectResponse())
    await expectRefusal(.unauthenticated) { try await harness.auth.introspect(request) }
  }

  @Test("Introspecting an old refresh token says inactive and does not end the session")
  func introspectOld() async throws {
    let harness = try await IdentityHarness()
    let first = try await harness.register("ada@example.com").tokens.orThrow()
    let second = try await harness.refresh(first)
    #expect(try await harness.isActive(first.refreshToken))
    let third = try await harness.refresh(second)
    #expect(try await !harness.isActive(first.refreshToken))
    _ = try await harness.refresh(third)
  }

  @Test("R7: an access token holds for 15 minutes and at most a minute of skew")
  func expiry() async throws {
    let harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    harness.clock.advance(by: .seconds(959))
    #expect(try await harness.isActive(tokens.accessToken))
    harness.clock.advance(by: .seconds(1))
    #expect(try await !harness.isActive(tokens.accessToken))
    await expectRefusal(.unauthenticated, "TOKEN_EXPIRED") { try await harness.logOut(tokens) }
    await expectRefusal(.unauthenticated, "TOKEN_EXPIRED") {
      try await harness.register("bob@example.com", guest: tokens)
    }
  }

  @Test("What is over is forgotten in the end: an old refresh token is then no token at all")
  func purge() async throws {
    let harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens
    let kept = try await harness.signIn("ada@example.com").tokens.orThrow()
    _ = try await harness.logOut(tokens)
    harness.clock.advance(by: .seconds(29 * 86_400))
    await harness.rooms.upkeep.sessions.purgeOnce()
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(tokens) }
    let used = try await harness.refresh(kept)
    harness.clock.advance(by: .seconds(2 * 86_400))
    await harness.rooms.upkeep.sessions.purgeOnce()
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_INVALID") { try await harness.refresh(tokens) }
    _ = try await harness.refresh(used)
  }

  @Test("R16: of very many sessions the newest are listed, and no more are read than are told")
  func listIsBounded() async throws {
    let harness = try await IdentityHarness()
    let first = try await harness.register("ada@example.com")
    var sids = [first.tokens?.sid ?? ""]
    for _ in 0..<3 {
      harness.clock.advance(by: .seconds(1))
      sids.append(try await harness.signIn("ada@example.com").tokens?.sid ?? "")
    }
    _ = try await harness.auth.revoke(
      IdentityV1.RevokeRequest(token: try first.tokens.orThrow().refreshToken))
    let owner = try SubjectID(try first.subject.orThrow().sub).orThrow()
    let now = harness.clock.now()
    let listed = try await harness.core.look(LiveSessions(of: owner, at: now, limit: 2))
    #expect(listed.map(\.id.description) == [sids[3], sids[2]])
    let all = try await harness.core.look(LiveSessions(of: owner, at: now, limit: Limits.listedSessions))
    #expect(all.map(\.id.description) == sids[1...].reversed())
  }

  /// Rows of a table that are over in the end.
  private func count(_ harness: IdentityHarness, _ table: String) async throws -> Int64 {
    try await harness.database.read { db throws(StorageError) in
      try db.first("SELECT count(*) FROM \(table)") { $0.integer(0) } ?? -1
    }
  }

  @Test("S19: what a code granted is on record as long as the session that it began, and no longer")
  func purgedGrants() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    func issue(_ id: String) async throws -> IdentityV1.IssueForQrResponse {
      try await harness.grants.issueForQr(
        IdentityV1.IssueForQrRequest(
          qrSessionID: id, sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
          clientID: "desktop"), options: .service)
    }
    let ended = try await issue("ended")
    let used = try await issue("used")
    _ = try await issue("expired")
    _ = try await harness.grants.revokeForQr(
      IdentityV1.RevokeForQrRequest(qrSessionID: "never-issued"), options: .service)
    _ = try await harness.logOut(ended.tokens)
    #expect(try await count(harness, "qr_grants") == 4)
    harness.clock.advance(by: .seconds(29 * 86_400))
    _ = try await harness.refresh(used.tokens)
    await harness.rooms.upkeep.sessions.purgeOnce()
    #expect(try await count(harness, "qr_grants") == 4)
    harness.clock.advance(by: .seconds(2 * 86_400))
    await harness.rooms.upkeep.sessions.purgeOnce()
    // Of a session that ended, and of one that was revoked before it began, nothing is left; the others are on record.
    #expect(try await count(harness, "qr_grants") == 2)
    #expect(
      try await harness.grants.revokeForQr(
        IdentityV1.RevokeForQrRequest(qrSessionID: "used"), options: .service
      ).sessionsEnded == 1)
    harness.clock.advance(by: .seconds(31 * 86_400))
    await harness.rooms.upkeep.sessions.purgeOnce()
    #expect(try await count(harness, "qr_grants") == 0)
  }

  @Test("What came of merges is forgotten in the end; the audit log tells of them")
  func purgedMerges() async throws {
    let harness = try await IdentityHarness(migrator: ScriptedMigrator())
    let account = try await harness.register("ada@example.com")
    let guest = try await harness.issueGuest(try TestDevice())
    _ = try await harness.signIn("ada@example.com", guest: guest.tokens, onConflict: .merge)
    _ = try await harness.grants.completeMigration(
      IdentityV1.CompleteMigrationRequest(
        migrationID: "m", guestSub: guest.subject?.sub ?? "", targetSub: account.subject?.sub ?? ""),
      options: .service)
    harness.clock.advance(by: .seconds(29 * 86_400))
    await harness.rooms.upkeep.sessions.purgeOnce()
    #expect(try await count(harness, "merges") == 1)
    #expect(try await count(harness, "merged_guests") == 1)
    harness.clock.advance(by: .seconds(2 * 86_400))
    await harness.rooms.upkeep.sessions.purgeOnce()
    #expect(try await count(harness, "merges") == 0)
    #expect(try await count(harness, "merged_guests") == 0)
  }
}
