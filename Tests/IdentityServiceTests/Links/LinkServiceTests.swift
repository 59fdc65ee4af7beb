import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Identities of an account")
struct LinkServiceTests {
  private func link(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?, _ identifier: String,
    password: String = IdentityHarness.password
  ) async throws -> IdentityV1.LinkIdentityResponse {
    try await harness.links.linkIdentity(
      IdentityV1.LinkIdentityRequest(identity: .identifier(identifier), password: password), options: .bearer(tokens))
  }

  private func unlink(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?, _ id: String
  ) async throws {
    _ = try await harness.links.unlinkIdentity(
      IdentityV1.UnlinkIdentityRequest(identityID: id, password: IdentityHarness.password), options: .bearer(tokens))
  }

  private func list(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?
  ) async throws -> [IdentityV1.LinkedIdentity] {
    try await harness.links.listIdentities(IdentityV1.ListIdentitiesRequest(), options: .bearer(tokens)).identities
  }

  @Test("An account can be reached by several identifiers; an unlinked one leads nowhere; the last one stays")
  func linking() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    harness.clock.advance(by: .seconds(1))
    let linked = try await link(harness, account.tokens, "+49 170 1234567")
    #expect(linked.linked && linked.identity?.kind == "phone" && linked.identity?.mask == "+49***67")
    #expect(try await !link(harness, account.tokens, "+491701234567").linked)
    #expect(try await harness.signIn("+491701234567").subject?.sub == account.subject?.sub)
    let identities = try await list(harness, account.tokens)
    #expect(identities.map(\.kind) == ["email", "phone"])
    try await unlink(harness, account.tokens, identities[0].identityID)
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await harness.signIn("ada@example.com") }
    await expectRefusal(.notFound, "IDENTITY_NOT_FOUND") {
      try await unlink(harness, account.tokens, identities[0].identityID)
    }
    await expectRefusal(.failedPrecondition, "LAST_IDENTITY") {
      try await unlink(harness, account.tokens, identities[1].identityID)
    }
    _ = try await harness.signIn("+491701234567")
    // What was unlinked is free again.
    #expect(try await harness.register("ada@example.com").subject?.sub != account.subject?.sub)
  }

  @Test("An identifier of another account is refused, and of two accounts that link it at once one gets it")
  func taken() async throws {
    let harness = try await IdentityHarness()
    let ada = try await harness.register("ada@example.com").tokens
    let bob = try await harness.register("bob@example.com").tokens
    await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await link(harness, ada, "bob@example.com") }
    let succeeded = await successes(10, refusedWith: "IDENTITY_IN_USE") { index in
      _ = try await harness.links.linkIdentity(
        IdentityV1.LinkIdentityRequest(identity: .identifier("shared@example.com"), password: IdentityHarness.password),
        options: .bearer(index.isMultiple(of: 2) ? ada : bob))
    }
    #expect(succeeded == 5)
  }

  @Test("Of two identities unlinked at once one stays")
  func concurrentUnlink() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com").tokens
    _ = try await link(harness, account, "ada_l")
    let ids = try await list(harness, account).map(\.identityID)
    let succeeded = await successes(2, refusedWith: "LAST_IDENTITY") { index in
      _ = try await harness.links.unlinkIdentity(
        IdentityV1.UnlinkIdentityRequest(identityID: ids[index], password: IdentityHarness.password),
        options: .bearer(account))
    }
    #expect(succeeded == 1)
    #expect(try await list(harness, account).count == 1)
  }

  @Test("R14: a session that ends while its caller's password is checked leaves no way back in, and takes none away")
  func endedMeanwhile() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    _ = try await link(harness, account.tokens, "ada_l")
    let (core, now) = (harness.core, harness.clock.now())
    let caller = try SessionID(try account.tokens.orThrow().sid).orThrow()
    let owner = try SubjectID(try account.subject.orThrow().sub).orThrow()
    // Both calls have been let in, and wait for the hash.
    let identities = try await core.look(ListIdentities(of: owner))
    _ = try await harness.logOut(account.tokens)
    let linked = try await core.perform(
      LinkIdentity(
        .customID(try CustomID("eve-0123456789abcdef").orThrow()), by: caller, notice: NoticeID(from: core.random),
        at: now))
    #expect(linked == .callerEnded)
    #expect(
      try await core.perform(UnlinkIdentity(identities[0], by: caller, notice: NoticeID(from: core.random), at: now))
        == .callerEnded)
    #expect(try await core.look(ListIdentities(of: owner)) == identities)
  }

  @Test("Who does not know the password cannot change what leads to the account, and cannot guess it here either")
  func reauthentication() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com").tokens
    for _ in 0..<10 {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await link(harness, account, "eve@example.com", password: "wrong one")
      }
    }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await link(harness, account, "eve@example.com") }
    harness.clock.advance(by: .seconds(1))
    #expect(try await link(harness, account, "ada_l").linked)
    // The right one begins no count anew: the next change may be refused for another reason, as often as one likes.
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await link(harness, account, "eve@example.com", password: "wrong one")
    }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await link(harness, account, "eve@example.com") }
  }

  @Test("R46: who proved a moment ago who they are is not asked for the password as well")
  func recentProofIsEnough() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com").tokens
    #expect(try await link(harness, account, "ada_l", password: "").linked)
    let id = try await list(harness, account).first { $0.kind == "user_name" }.orThrow().identityID
    _ = try await harness.links.unlinkIdentity(.init(identityID: id), options: .bearer(account))
    harness.clock.advance(by: .seconds(301))
    // The password does not stand for the proof that the table asks for.
    await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") { try await link(harness, account, "ada_l") }
  }

  @Test("R34: neither a guest nor a screen signed in by a code may link")
  func access() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice()).tokens
    await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") { try await link(harness, guest, "ada@example.com") }
    let account = try await harness.register("ada@example.com")
    let screen = try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-1", sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
        clientID: "desktop"),
      options: .service
    ).tokens
    await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") { try await link(harness, screen, "eve@example.com") }
  }

  @Test("G21, G22: a form learns whether an identifier is one and still free")
  func check() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    func check(_ identifier: String) async throws -> IdentityV1.CheckIdentifierResponse {
      try await harness.auth.checkIdentifier(IdentityV1.CheckIdentifierRequest(subject: .identifier(identifier)))
    }
    #expect(
      try await check("ADA@example.com")
        == .init(valid: true, available: false, kind: "email", availableWithCode: true))
    #expect(try await check("bob@example.com") == .init(valid: true, available: true, kind: "email"))
    #expect(try await check("nonsense@") == .init())
    for (nickname, isValid) in [("Ada", true), ("12345678901", false), ("", false)] {
      let answer = try await harness.auth.checkIdentifier(
        IdentityV1.CheckIdentifierRequest(subject: .nickname(nickname)))
      #expect(answer.valid == isValid && answer.available == isValid)
    }
  }

  @Test("G21, R26: a network asks about thirty identifiers a minute, then is told when to come back")
  func checkLimit() async throws {
    let harness = try await IdentityHarness()
    let request = IdentityV1.CheckIdentifierRequest(subject: .identifier("bob@example.com"))
    for _ in 0..<30 { _ = try await harness.auth.checkIdentifier(request) }
    let refusal = await expectRefusal(.resourceExhausted, "RATE_LIMITED") {
      try await harness.auth.checkIdentifier(request)
    }
    #expect(refusal?.details.retryAfter == .seconds(2))
    harness.clock.advance(by: .seconds(2))
    _ = try await harness.auth.checkIdentifier(request)
  }
}
