import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

/// The five ways to prepare somebody else's account, after Sudhodanan and Paverd, "Pre-hijacked accounts" (USENIX Security
/// 2022): a stranger says the owner's address first, and waits for the owner to come.
@Suite("An address that nobody proved")
struct UnprovenAddressTests {
  private static let address = "ada@example.com"
  private static let strangersPassword = "a stranger's password"

  private struct Scene {
    let harness: IdentityHarness
    let box: Postbox
    let provider: TestProvider
    /// Who said the address without having it.
    let stranger: CommonV1.TokenSet
    let strangersSubject: String
  }

  private func with(_ body: (Scene) async throws -> Void) async throws {
    let box = Postbox()
    let provider = try TestProvider()
    let harness = try await IdentityHarness(codeSink: box, providers: provider.providers())
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    let account = try await harness.auth(from: "198.51.100.9").register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: IdentityV1.PasswordCredential(identifier: Self.address, password: Self.strangersPassword)))
    try await body(
      Scene(
        harness: harness, box: box, provider: provider, stranger: try account.tokens.orThrow(),
        strangersSubject: try account.subject.orThrow().sub))
  }

  private func code(_ scene: Scene, from network: String = "192.0.2.7") async throws -> IdentityV1.OtpCredential {
    let sent = scene.box.codes.count
    let answer = try await scene.harness.auth(from: network).sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: Self.address, purpose: .proveAddress))
    return IdentityV1.OtpCredential(
      identifier: Self.address, code: try await scene.box.code(sent + 1), handle: answer.handle)
  }

  /// The owner comes and shows the address to be theirs.
  private func register(_ scene: Scene, password: String? = IdentityHarness.password) async throws
    -> IdentityV1.RegisterResponse
  {
    try await scene.harness.auth.register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: password.map { IdentityV1.PasswordCredential(identifier: Self.address, password: $0) },
        otp: try await code(scene)))
  }

  private func identities(_ scene: Scene, _ tokens: CommonV1.TokenSet?) async throws -> [IdentityV1.LinkedIdentity] {
    try await scene.harness.links.listIdentities(IdentityV1.ListIdentitiesRequest(), options: .bearer(tokens))
      .identities
  }

  @Test("R47: who proves an address has an account of their own, and the stranger's password leads there no more")
  func classicMerge() async throws {
    try await with { scene in
      let owner = try await register(scene)
      #expect(owner.subject?.sub != scene.strangersSubject)
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await scene.harness.signIn(Self.address, password: Self.strangersPassword)
      }
      #expect(try await scene.harness.signIn(Self.address).subject?.sub == owner.subject?.sub)
      // Nor does the account without a password take anything over.
      #expect(try await identities(scene, scene.stranger).isEmpty)
    }
  }

  @Test("R47: a provider's word for an address leads into nobody's account by that address")
  func federatedMerge() async throws {
    try await with { scene in
      for verified in [true, false] {
        let nonce = try await scene.harness.nonce()
        let token = try scene.provider.token(
          nonce: nonce, subject: "ada-\(verified)", at: scene.harness.clock.now(),
          changing: ["email": .string(Self.address), "email_verified": .bool(verified)])
        let federated = try await scene.harness.authenticate(
          .idToken(IdentityV1.IdTokenCredential(idToken: token, nonce: nonce)))
        #expect(federated.subject?.sub != scene.strangersSubject)
        // And the other way round: a provider that verifies nothing gets nobody into the owner's.
        #expect(try await identities(scene, federated.tokens).map(\.kind) == ["oidc"])
      }
    }
  }

  @Test("R47: a session that a stranger kept sees nothing of who proved the address")
  func unexpiredSession() async throws {
    try await with { scene in
      let kept = try await scene.harness.refresh(scene.stranger)
      let owner = try await register(scene)
      let still = try await scene.harness.refresh(kept)
      let sessions = try await scene.harness.sessions.listSessions(
        IdentityV1.ListSessionsRequest(), options: .bearer(still)
      ).sessions
      #expect(!sessions.contains { $0.sid == owner.tokens?.sid })
      await expectRefusal(.notFound, "SESSION_NOT_FOUND") {
        try await scene.harness.sessions.revokeSession(
          IdentityV1.RevokeSessionRequest(sid: owner.tokens?.sid ?? ""), options: .bearer(still))
      }
    }
  }

  @Test("R47: what a stranger linked beside the address leads into the stranger's account alone")
  func trojanIdentifier() async throws {
    try await with { scene in
      _ = try await scene.harness.link(
        .identifier("trojan_horse"), scene.stranger, password: Self.strangersPassword)
      let owner = try await register(scene)
      #expect(try await identities(scene, owner.tokens).map(\.kind) == ["email"])
      let back = try await scene.harness.signIn("trojan_horse", password: Self.strangersPassword)
      #expect(back.subject?.sub == scene.strangersSubject)
    }
  }

  @Test("R47: a conflict's ticket that the address was good for is void once another has shown it to be theirs")
  func ticket() async throws {
    try await with { scene in
      let guest = try await scene.harness.issueGuest(try TestDevice())
      func redeem(_ ticket: String) async throws -> IdentityV1.AuthenticateResponse {
        try await scene.harness.auth.authenticate(
          IdentityV1.AuthenticateRequest(
            clientID: "app.test", guestToken: try guest.tokens.orThrow().accessToken, onConflict: .switch,
            linkTicket: ticket))
      }
      let answer = try await scene.harness.signIn(
        Self.address, password: Self.strangersPassword, guest: guest.tokens)
      let given = try answer.conflict.orThrow().linkTicket
      _ = try await register(scene)
      await expectRefusal(.failedPrecondition, "LINK_TICKET_INVALID") { try await redeem(given) }
    }
  }

  @Test("R47: a change of address that a stranger began is not finished by the owner's code")
  func unexpiredChange() async throws {
    try await with { scene in
      let begun = try await code(scene, from: "198.51.100.9")
      let owner = try await register(scene)
      // What the owner was sent for the stranger's change, or for their own, is not what the stranger has.
      scene.harness.clock.advance(by: .seconds(61))
      let own = try await code(scene)
      var guess = own
      guess.handle = begun.handle
      if begun.code != own.code {
        await expectRefusal(.unauthenticated, "CODE_INVALID") {
          try await scene.harness.link(.otp(guess), scene.stranger, password: Self.strangersPassword)
        }
      }
      await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") {
        try await scene.harness.link(.identifier(Self.address), scene.stranger, password: Self.strangersPassword)
      }
      #expect(try await scene.harness.signIn(Self.address).subject?.sub == owner.subject?.sub)
    }
  }

  @Test("R47: a code leads into no account whose owner did not prove the address, and is not even sent")
  func byCode() async throws {
    try await with { scene in
      _ = try await scene.harness.auth.sendOtp(
        IdentityV1.SendOtpRequest(clientID: "app.test", identifier: Self.address))
      scene.harness.clock.advance(by: .seconds(61))
      let code = try await code(scene)
      #expect(scene.box.codes.count == 1)
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await scene.harness.authenticate(.otp(code)) }
      // The account's own password goes on leading there by it.
      let own = try await scene.harness.signIn(Self.address, password: Self.strangersPassword)
      #expect(own.subject?.sub == scene.strangersSubject)
    }
  }

  @Test("R47: an address that was only said is free to who proves it, and without a code to nobody")
  func reserved() async throws {
    try await with { scene in
      let check = try await scene.harness.auth.checkIdentifier(
        IdentityV1.CheckIdentifierRequest(subject: .identifier(Self.address)))
      #expect(!check.available && check.availableWithCode)
      let taken = await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") {
        try await scene.harness.register(Self.address)
      }
      #expect(taken?.details.info == [RPCError.KeyValue("proof", "otp")])
      let bob = try await scene.harness.register("bob@example.com")
      await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") {
        try await scene.harness.link(.identifier(Self.address), bob.tokens, password: IdentityHarness.password)
      }
      let code = try await code(scene)
      #expect(try await scene.harness.link(.otp(code), bob.tokens, password: IdentityHarness.password).linked)
      #expect(try await identities(scene, scene.stranger).isEmpty)
      await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await scene.harness.register(Self.address) }
    }
  }

  @Test("R47: who proves an address of their own account signs in by codes from then on", .timeLimit(.minutes(1)))
  func proving() async throws {
    try await with { scene in
      #expect(try await identities(scene, scene.stranger).map(\.verified) == [false])
      let code = try await code(scene)
      let linked = try await scene.harness.link(.otp(code), scene.stranger, password: Self.strangersPassword)
      #expect(!linked.linked && linked.identity?.verified == true)
      scene.harness.clock.advance(by: .seconds(61))
      let again = try await self.code(scene)
      #expect(try await scene.harness.authenticate(.otp(again)).subject?.sub == scene.strangersSubject)
    }
  }
}
