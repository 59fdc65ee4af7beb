import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("What holds once holds once on every path")
struct OneTimeTests {
  /// Credentials of which each holds once.
  enum Kind: CaseIterable {
    case code
    case idToken
    case deviceKey
  }

  /// An account that each of them leads to, and a guest on another device.
  private final class Scene: Sendable {
    let harness: IdentityHarness
    let box = Postbox()
    let provider: TestProvider
    let key: P256PrivateKey
    let guest: CommonV1.TokenSet
    private let courier: Task<Void, Never>

    init() async throws {
      provider = try TestProvider()
      key = try P256PrivateKey()
      harness = try await IdentityHarness(codeSink: box, providers: provider.providers())
      courier = Task { [harness] in await harness.core.courier.run() }
      _ = try await harness.auth.sendOtp(
        IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "ada@example.com", purpose: .proveAddress))
      let device = try await harness.issueGuest(try TestDevice())
      let account = try await harness.auth.register(
        IdentityV1.RegisterRequest(
          clientID: "app.test", guestToken: try device.tokens.orThrow().accessToken,
          otp: IdentityV1.OtpCredential(identifier: "ada@example.com", code: try await box.code())))
      _ = try await harness.enrolKey(key, account.tokens)
      let nonce = try await harness.nonce()
      let token = try provider.token(nonce: nonce, at: harness.clock.now())
      _ = try await harness.link(
        .idToken(IdentityV1.IdTokenCredential(idToken: token, nonce: nonce)), account.tokens)
      guest = try await harness.issueGuest(try TestDevice()).tokens.orThrow()
      harness.clock.advance(by: .seconds(60))
    }

    deinit { courier.cancel() }

    /// A credential that was used for nothing yet.
    func credential(_ kind: Kind) async throws -> IdentityV1.AuthenticateRequest.Method {
      switch kind {
      case .code:
        let sent = box.codes.count
        _ = try await harness.auth.sendOtp(
          IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "ada@example.com"))
        return .otp(
          IdentityV1.OtpCredential(identifier: "ada@example.com", code: try await box.code(sent + 1)))
      case .idToken:
        let nonce = try await harness.nonce()
        let token = try provider.token(nonce: nonce, at: harness.clock.now())
        return .idToken(IdentityV1.IdTokenCredential(idToken: token, nonce: nonce))
      case .deviceKey:
        let proof = try await harness.proof(by: key, for: "latchkey-unlock-v1")
        return .deviceKey(IdentityV1.DeviceKeyCredential(proof: proof))
      }
    }

    func redeem(
      _ ticket: String, in service: IdentityHarness? = nil
    ) async throws -> IdentityV1.AuthenticateResponse {
      try await (service ?? harness).auth.authenticate(
        IdentityV1.AuthenticateRequest(
          clientID: "app.test", guestToken: guest.accessToken, onConflict: .switch, linkTicket: ticket))
    }

    func expectSpent(
      _ kind: Kind, in service: IdentityHarness? = nil, _ call: () async throws -> IdentityV1.AuthenticateResponse
    ) async {
      switch kind {
      case .code: await expectRefusal(.unauthenticated, "CODE_VOID", call)
      case .idToken, .deviceKey: await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID", call)
      }
    }
  }

  @Test("R52: the ticket of a conflict takes the credential's place: that is spent", arguments: Kind.allCases)
  func conflict(kind: Kind) async throws {
    let scene = try await Scene()
    let method = try await scene.credential(kind)
    let ticket = try await scene.harness.authenticate(method, guest: scene.guest).conflict.orThrow().linkTicket
    await scene.expectSpent(kind) { try await scene.harness.authenticate(method, guest: scene.guest) }
    await scene.expectSpent(kind) {
      try await scene.harness.authenticate(method, guest: scene.guest, onConflict: .switch)
    }
    await scene.expectSpent(kind) { try await scene.harness.authenticate(method) }
    #expect(try await scene.redeem(ticket).tokens != nil)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await scene.redeem(ticket) }
    await scene.expectSpent(kind) { try await scene.harness.authenticate(method) }
  }

  @Test("R52: of many conflicts that one credential reports at once, one has a ticket", arguments: Kind.allCases)
  func conflictsAtOnce(kind: Kind) async throws {
    let scene = try await Scene()
    let method = try await scene.credential(kind)
    let reason = kind == .code ? "CODE_VOID" : "CHALLENGE_INVALID"
    let reported = await successes(8, refusedWith: reason) { _ in
      _ = try await scene.harness.authenticate(method, guest: scene.guest).conflict.orThrow()
    }
    #expect(reported == 1)
  }

  @Test("R52: a sign-in spends what it presents, with a guest or without", arguments: Kind.allCases)
  func signIn(kind: Kind) async throws {
    let scene = try await Scene()
    let alone = try await scene.credential(kind)
    #expect(try await scene.harness.authenticate(alone).tokens != nil)
    await scene.expectSpent(kind) { try await scene.harness.authenticate(alone) }
    await scene.expectSpent(kind) { try await scene.harness.authenticate(alone, guest: scene.guest) }
    scene.harness.clock.advance(by: .seconds(60))
    let switching = try await scene.credential(kind)
    #expect(try await scene.harness.authenticate(switching, guest: scene.guest, onConflict: .switch).tokens != nil)
    await scene.expectSpent(kind) { try await scene.harness.authenticate(switching) }
  }

  @Test(
    "R52: a conflict asked for again under its key has the same ticket, also after a crash", arguments: Kind.allCases)
  func retry(kind: Kind) async throws {
    let scene = try await Scene()
    let method = try await scene.credential(kind)
    func report(_ service: IdentityHarness, _ key: String) async throws -> IdentityV1.AuthenticateResponse {
      try await service.authenticate(method, guest: scene.guest, key: key)
    }
    let first = try await report(scene.harness, "tap").conflict.orThrow()
    #expect(try await report(scene.harness, "tap").conflict == first)
    let restarted = try await IdentityHarness(
      folder: scene.harness.folder, clock: scene.harness.clock, providers: scene.provider.providers())
    #expect(try await report(restarted, "tap").conflict == first)
    await scene.expectSpent(kind) { try await report(restarted, "another") }
    #expect(try await scene.redeem(first.linkTicket, in: restarted).tokens != nil)
    // The guest's session ended with that; the ticket is none of any other's.
    await expectRefusal(.unauthenticated) { try await report(restarted, "tap") }
  }
}
