import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("A step-up")
struct StepUpTests {
  private let box = Postbox()
  private let harness: IdentityHarness
  private let owner: IdentityV1.RegisterResponse
  private let phone: TestDevice

  init() async throws {
    harness = try await IdentityHarness(codeSink: box)
    phone = try TestDevice()
    let guest = try await harness.issueGuest(phone)
    owner = try await harness.register("ada@example.com", guest: guest.tokens)
  }

  private func stepUp(
    _ tokens: CommonV1.TokenSet?, _ method: IdentityV1.StepUpRequest.Method
  ) async throws -> CommonV1.TokenSet {
    try await harness.auth.stepUp(IdentityV1.StepUpRequest(method: method), options: .bearer(tokens)).tokens.orThrow()
  }

  private func password(_ identifier: String = "ada@example.com") -> IdentityV1.StepUpRequest.Method {
    .password(IdentityV1.PasswordCredential(identifier: identifier, password: IdentityHarness.password))
  }

  private func deviceKey(_ key: P256PrivateKey) async throws -> IdentityV1.StepUpRequest.Method {
    .deviceKey(IdentityV1.DeviceKeyCredential(proof: try await harness.proof(by: key, for: "latchkey-unlock-v1")))
  }

  private func code(_ id: String, scope: String = "basic profile account", by tokens: CommonV1.TokenSet?) async throws
    -> CommonV1.TokenSet
  {
    try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: id, sub: owner.subject?.sub ?? "", confirmedBySid: tokens?.sid ?? "", clientID: "app.test",
        scope: scope, deviceLabel: "Screen", platform: "tv", confirmerAuthTime: .init(harness.clock.now())),
      options: .service
    ).tokens.orThrow()
  }

  /// Every way to change who gets in, each as a call that is right but for how old the proof is.
  private func changes(_ caller: CallOptions) -> [(String, () async throws -> Void)] {
    [
      (
        "LinkIdentity",
        { _ = try await harness.links.linkIdentity(.init(identity: .identifier("ada_l")), options: caller) }
      ),
      ("UnlinkIdentity", { _ = try await harness.links.unlinkIdentity(.init(identityID: "x"), options: caller) }),
      ("CreateTransfer", { _ = try await harness.transfers.createTransfer(.init(), options: caller) }),
      ("RevokeOtherSessions", { _ = try await harness.sessions.revokeOtherSessions(.init(), options: caller) }),
      (
        "RevokeSession",
        {
          let other = SessionID(from: harness.core.random)
          _ = try await harness.sessions.revokeSession(.init(sid: other.description), options: caller)
        }
      ),
      ("ConfirmSession", { _ = try await harness.sessions.confirmSession(.init(), options: caller) }),
      ("RemoveDevice", { _ = try await harness.devices.removeDevice(.init(), options: caller) }),
      ("DeleteGuest", { _ = try await harness.guests.deleteGuest(.init(), options: caller) }),
      (
        "ExportGuest",
        {
          try await harness.guests.exportGuest(.init(), options: caller) { parts throws(RPCError) in
            for try await _ in parts {}
          }
        }
      ),
      ("Logout", { _ = try await harness.auth.logout(.init(scope: .global), options: caller) }),
    ]
  }

  @Test("R46: whoever proved themselves too long ago changes nothing of who gets in, and is told what would do")
  func old() async throws {
    harness.clock.advance(by: .seconds(301))
    for (name, call) in changes(.bearer(owner.tokens)) {
      let refused = await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") { try await call() }
      #expect(refused?.details.info.first == RPCError.KeyValue("max_age", "300"), "\(name)")
      #expect(refused?.details.info.last?.value.contains("password") == true, "\(name)")
    }
    let tokens = try await stepUp(owner.tokens, password())
    _ = try await harness.transfers.createTransfer(.init(), options: .bearer(tokens))
  }

  @Test("R46, R12: it is the same session with a proof of now; whoever has its refresh token of before ends it")
  func sameSession() async throws {
    harness.clock.advance(by: .seconds(600))
    let tokens = try await stepUp(owner.tokens, password())
    #expect(tokens.sid == owner.tokens?.sid && tokens.scope == owner.tokens?.scope)
    let session = try await harness.core.session(try SessionID(tokens.sid).orThrow()).orThrow()
    #expect(session.authenticatedAt == harness.clock.now())
    await expectRefusal(.unauthenticated, "REFRESH_TOKEN_REUSED") { try await harness.refresh(owner.tokens) }
    #expect(try await !harness.isActive(tokens.accessToken))
  }

  @Test("R46: a guest proves its device's key, and no other")
  func guest() async throws {
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    harness.clock.advance(by: .seconds(301))
    let refused = await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") {
      try await harness.transfers.createTransfer(.init(), options: .bearer(guest.tokens))
    }
    #expect(refused?.details.info.last == RPCError.KeyValue("proofs", "device_key"))
    let stranger = try await deviceKey(try P256PrivateKey())
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await stepUp(guest.tokens, stranger) }
    await expectRefusal(.invalidArgument, field: "method") { try await stepUp(guest.tokens, password()) }
    let proof = try await deviceKey(device.key)
    let tokens = try await stepUp(guest.tokens, proof)
    _ = try await harness.transfers.createTransfer(.init(), options: .bearer(tokens))
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await stepUp(tokens, proof) }
  }

  @Test("R46: somebody else's credential and a wrong one prove nothing")
  func othersCredential() async throws {
    _ = try await harness.register("eve@example.com")
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await stepUp(owner.tokens, password("eve@example.com"))
    }
    let wrong = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: "not the password")
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await stepUp(owner.tokens, .password(wrong)) }
  }

  @Test("R46, R24: somebody else's guesses, and what unlocks for somebody else, count for who calls")
  func othersTries() async throws {
    let bob = try await harness.register("bob@example.com").tokens
    _ = try await harness.enrolPattern("1234", on: phone, owner.tokens)
    let key = try P256PrivateKey()
    _ = try await harness.enrolKey(key, owner.tokens)
    func pattern(_ text: String) async throws -> IdentityV1.PatternCredential {
      let proof = try await harness.proof(by: phone.key, for: "latchkey-pattern-v1")
      return IdentityV1.PatternCredential(proof: proof, pattern: text)
    }
    func guess() async throws {
      let wrong = try await pattern("0000")
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await harness.authenticate(.pattern(wrong)) }
    }
    for _ in 0..<2 { try await guess() }
    let (right, others) = (try await pattern("1234"), try await deviceKey(key))
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await stepUp(bob, .pattern(right)) }
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await stepUp(bob, others) }
    // The third wrong one still, and then the wait: nothing of it was begun anew.
    try await guess()
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await stepUp(owner.tokens, .pattern(right)) }
    for _ in 0..<8 {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await stepUp(bob, password()) }
    }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await stepUp(bob, password("bob@example.com")) }
    _ = try await stepUp(owner.tokens, password())
  }

  @Test("R46, S18: what a code began is confirmed by a proof of its owner's in it, and lets others in only then")
  func confirms() async throws {
    let screen = try await code("qr-1", by: owner.tokens)
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") {
      try await harness.transfers.createTransfer(.init(), options: .bearer(screen))
    }
    let tokens = try await stepUp(screen, password())
    _ = try await harness.transfers.createTransfer(.init(), options: .bearer(tokens))
  }

  @Test("R46: a session that a code began proves nothing by a key that it enrolled, nor by one enrolled after it")
  func ownMaking() async throws {
    let screen = try await code("qr-1", by: owner.tokens)
    var proven = try await stepUp(screen, password())
    // The key of a device is enrolled on that device, so the session needs one.
    let guest = try TestDevice()
    let bound = try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-2", sub: owner.subject?.sub ?? "", confirmedBySid: proven.sid, clientID: "app.test",
        scope: "basic profile account", deviceLabel: "Tablet", platform: "iOS", deviceKey: guest.jwk, kind: .transfer,
        confirmerAuthTime: .init(harness.clock.now())),
      options: .service
    ).tokens.orThrow()
    let id = try SessionID(bound.sid).orThrow()
    func unbound() async throws -> CommonV1.TokenSet {
      var tokens = bound
      let session = try await harness.core.session(id).orThrow()
      tokens.accessToken = try harness.core.tokens.delegatedToken(of: session, at: harness.clock.now())
      return tokens
    }
    _ = try await stepUp(try await unbound(), password())
    let key = try P256PrivateKey()
    _ = try await harness.enrolKey(key, try await unbound())
    harness.clock.advance(by: .seconds(301))
    let (own, before) = (try await deviceKey(key), try await deviceKey(key))
    let caller = try await unbound()
    await expectRefusal(.permissionDenied, "CREDENTIAL_NOT_INDEPENDENT") { try await stepUp(caller, own) }
    await expectRefusal(.permissionDenied, "CREDENTIAL_NOT_INDEPENDENT") { try await stepUp(proven, before) }
    // To the owner's phone it is as good a key as any.
    let phones = try await deviceKey(key)
    _ = try await stepUp(owner.tokens, phones)
    proven = try await stepUp(proven, password())
    #expect(!proven.accessToken.isEmpty)
  }

  private func guess(_ tokens: CommonV1.TokenSet?, _ reason: String = "INVALID_CREDENTIALS") async {
    let wrong = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: "not the password")
    await expectRefusal(nil, reason) { try await stepUp(tokens, .password(wrong)) }
  }

  @Test("R49: a key is no guess at a password: a step-up by one begins no count of wrong passwords anew")
  func keyBetweenGuesses() async throws {
    let key = try P256PrivateKey()
    _ = try await harness.enrolKey(key, owner.tokens)
    for _ in 0..<9 { await guess(owner.tokens) }
    let proof = try await deviceKey(key)
    let tokens = try await stepUp(owner.tokens, proof)
    await guess(tokens)
    await guess(tokens, "TOO_MANY_ATTEMPTS")
  }

  @Test("R49: a step-up by a secret that holds again and again begins no count of wrong tries anew")
  func stepUpsBetweenGuesses() async throws {
    let secret = IdentityV1.CustomSecretCredential(id: "another-name-1234", secret: "another-secret-1234")
    _ = try await harness.link(.customSecret(secret), owner.tokens)
    var tokens = owner.tokens
    for _ in 0..<9 { await guess(tokens) }
    for method in [IdentityV1.StepUpRequest.Method.customSecret(secret), password(), .customSecret(secret)] {
      tokens = try await stepUp(tokens, method)
    }
    await guess(tokens)
    await guess(tokens, "TOO_MANY_ATTEMPTS")
  }

  @Test("R49: a secret and a code that a step-up refuses begin no count of wrong tries anew", .timeLimit(.minutes(1)))
  func refusedBetweenGuesses() async throws {
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    func ownCode(_ count: Int) async throws -> IdentityV1.OtpCredential {
      _ = try await harness.auth.sendOtp(
        IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "eve@example.com", purpose: .proveAddress))
      return IdentityV1.OtpCredential(identifier: "eve@example.com", code: try await box.code(count))
    }
    let screen = try await stepUp(try await code("qr-1", by: owner.tokens), password())
    let secret = IdentityV1.CustomSecretCredential(id: "another-name-1234", secret: "another-secret-1234")
    _ = try await harness.link(.customSecret(secret), screen)
    let first = try await ownCode(1)
    _ = try await harness.link(.otp(first), screen)
    harness.clock.advance(by: .seconds(61))
    let own: [IdentityV1.StepUpRequest.Method] = [.customSecret(secret), .otp(try await ownCode(2))]
    for _ in 0..<9 { await guess(screen) }
    for method in own + own {
      await expectRefusal(.permissionDenied, "CREDENTIAL_NOT_INDEPENDENT") { try await stepUp(screen, method) }
    }
    await guess(screen)
    await guess(screen, "TOO_MANY_ATTEMPTS")
  }
}
