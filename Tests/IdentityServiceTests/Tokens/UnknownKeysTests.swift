import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import StoragePostgreSQL
import TestSupport
import Testing

@testable import IdentityService

/// An instance that stood still does not know which keys sign until it has looked, which is done here when a test says so.
@Suite("C15: calls for tokens while the signing keys are not known")
struct UnknownKeysTests {
  private final class Scene: Sendable {
    let harness: IdentityHarness
    let box = Postbox()
    private let courier: Task<Void, Never>

    init() async throws {
      let url = try PostgreSQLServer.shared().database()
      let database = try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .identity, connections: 2)
      harness = try await IdentityHarness(storage: PostgreSQLIdentityStorage(database), codeSink: box)
      courier = Task { [harness] in await harness.core.courier.run() }
    }

    deinit { courier.cancel() }

    func standStill() { harness.clock.advance(by: Limits.signingKeyLead / 2) }

    /// The same call is refused, and after a look it answers: what holds once was not used up.
    func expectTwice<Value>(
      sourceLocation: SourceLocation = #_sourceLocation, _ call: () async throws -> Value
    ) async throws -> Value {
      await expectRefusal(.unavailable, sourceLocation: sourceLocation, call)
      try await harness.core.tokens.keys.maintain()
      return try await call()
    }
  }

  @Test("C15: a guest's challenge is not used up")
  func guest() async throws {
    let scene = try await Scene()
    scene.standStill()
    let device = try TestDevice()
    let request = try device.issueRequest(try await scene.harness.challenge(for: device))
    let answer = try await scene.expectTwice { try await scene.harness.guests.issueGuest(request) }
    #expect(answer.created)
  }

  @Test("C15: a code that was sent makes an account, and signs in to it")
  func code() async throws {
    let scene = try await Scene()
    let harness = scene.harness
    scene.standStill()
    let address = "ada@example.com"
    _ = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: address, purpose: .proveAddress))
    let proof = IdentityV1.OtpCredential(identifier: address, code: try await scene.box.code())
    let account = try await scene.expectTwice {
      try await harness.auth.register(IdentityV1.RegisterRequest(clientID: "app.test", otp: proof))
    }
    scene.standStill()
    _ = try await harness.auth.sendOtp(IdentityV1.SendOtpRequest(clientID: "app.test", identifier: address))
    let login = IdentityV1.OtpCredential(identifier: address, code: try await scene.box.code(2))
    let signedIn = try await scene.expectTwice { try await harness.authenticate(.otp(login)) }
    #expect(signedIn.subject?.sub == account.subject?.sub)
  }

  @Test("C15: a refresh token is not rotated")
  func refresh() async throws {
    let scene = try await Scene()
    let guest = try await scene.harness.issueGuest(try TestDevice()).tokens.orThrow()
    scene.standStill()
    await expectRefusal(.unavailable) { try await scene.harness.refresh(guest) }
    let id = try SessionID(guest.sid).orThrow()
    let kept = try await scene.harness.core.session(id)
    #expect(kept.map { scene.harness.core.tokens.refresh.newest(of: $0) } == guest.refreshToken)
    try await scene.harness.core.tokens.keys.maintain()
    _ = try await scene.harness.refresh(guest)
  }

  @Test("D8: the code of a transfer is not used up")
  func transfer() async throws {
    let scene = try await Scene()
    let harness = scene.harness
    let guest = try await harness.issueGuest(try TestDevice())
    let offer = try await harness.transfers.createTransfer(
      IdentityV1.CreateTransferRequest(), options: .bearer(guest.tokens))
    scene.standStill()
    let device = try TestDevice()
    let challenge = try await harness.challenge(for: device)
    let request = IdentityV1.RedeemTransferRequest(
      secret: .code(offer.code),
      clientID: device.clientID,
      device: try device.issueRequest(challenge).device,
      challenge: challenge,
      proof: try device.sign(
        "latchkey-transfer-proof-v1", [device.clientID, device.deviceID, challenge, offer.code])
    )
    let moved = try await scene.expectTwice { try await harness.transfers.redeemTransfer(request) }
    #expect(moved.subject == guest.subject)
  }
}
