import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Unlocking an account on a device")
struct UnlockTests {
  /// An account on a phone that has shown its key.
  private struct Scene {
    let harness: IdentityHarness
    let device: TestDevice
    let tokens: CommonV1.TokenSet

    init(_ harness: IdentityHarness, _ name: String = "ada@example.com") async throws {
      self.harness = harness
      device = try TestDevice()
      let guest = try await harness.issueGuest(device)
      tokens = try await harness.register(name, guest: guest.tokens).tokens.orThrow()
    }

    init() async throws {
      try await self.init(try await IdentityHarness())
    }

    func unlock(_ key: P256PrivateKey, for purpose: String = "latchkey-unlock-v1") async throws -> CommonV1.TokenSet {
      let proof = try await harness.proof(by: key, for: purpose)
      return try await harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof))).tokens.orThrow()
    }

    func unlock(_ pattern: String, by key: P256PrivateKey? = nil) async throws -> CommonV1.TokenSet {
      let proof = try await harness.proof(by: key ?? device.key, for: "latchkey-pattern-v1")
      return try await harness.authenticate(
        .pattern(IdentityV1.PatternCredential(proof: proof, pattern: pattern))
      ).tokens.orThrow()
    }

    func list() async throws -> [IdentityV1.LinkedIdentity] {
      try await harness.links.listIdentities(IdentityV1.ListIdentitiesRequest(), options: .bearer(tokens)).identities
    }
  }

  @Test("P1: a signature for one purpose is none for another, and a guest's proof unlocks nothing")
  func purposes() async throws {
    let scene = try await Scene()
    let key = try P256PrivateKey()
    _ = try await scene.harness.enrolKey(key, scene.tokens)
    for purpose in ["latchkey-pattern-v1", "latchkey-enrol-unlock-v1", "latchkey-device-proof-v1"] {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock(key, for: purpose) }
    }
    let tokens = try await scene.unlock(key)
    // Nor does the signature for an unlock enrol anything.
    let proof = try await scene.harness.proof(by: try P256PrivateKey(), for: "latchkey-unlock-v1")
    await expectRefusal(.unauthenticated, "PROOF_INVALID") {
      try await scene.harness.link(.deviceKey(IdentityV1.DeviceKeyEnrolment(proof: proof)), tokens)
    }
    // The device's own key was never enrolled to unlock by itself.
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock(scene.device.key) }
  }

  @Test("P1: a session that an unlock begins is on the device that it was enrolled on")
  func onDevice() async throws {
    let scene = try await Scene()
    let key = try P256PrivateKey()
    _ = try await scene.harness.enrolKey(key, scene.tokens)
    let tokens = try await scene.unlock(key)
    let session = try await scene.harness.core.session(try SessionID(tokens.sid).orThrow())
    #expect(session?.device.keyThumbprint == scene.device.key.publicKey.thumbprint)
    #expect(session?.scope == .account)
    #expect(try await !scene.harness.isActive(scene.tokens.accessToken))
  }

  @Test("R23: the challenge of an enrolment and of an unlock holds once, for one key and one app")
  func challenges() async throws {
    let scene = try await Scene()
    let key = try P256PrivateKey()
    let enrolment = try await scene.harness.proof(by: key, for: "latchkey-enrol-unlock-v1")
    let link = IdentityV1.LinkIdentityRequest.Identity.deviceKey(IdentityV1.DeviceKeyEnrolment(proof: enrolment))
    #expect(try await scene.harness.link(link, scene.tokens).linked)
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await scene.harness.link(link, scene.tokens) }
    var proof = try await scene.harness.proof(by: key, for: "latchkey-unlock-v1")
    scene.harness.clock.advance(by: .seconds(301))
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") {
      try await scene.harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)))
    }
    proof = try await scene.harness.proof(by: key, for: "latchkey-unlock-v1", client: "other.app")
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") {
      try await scene.harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)))
    }
  }

  @Test("P1: a pattern is worth nothing without the key of the device it was made on")
  func patternNeedsItsDevice() async throws {
    let scene = try await Scene()
    let other = try P256PrivateKey()
    let proof = try await scene.harness.proof(by: other, for: "latchkey-enrol-pattern-v1")
    await expectRefusal(.failedPrecondition, "DEVICE_KEY_REQUIRED") {
      try await scene.harness.link(
        .pattern(IdentityV1.PatternEnrolment(proof: proof, pattern: "1234")),
        scene.tokens
      )
    }
    _ = try await scene.harness.enrolPattern("1234", on: scene.device, scene.tokens)
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock("1234", by: other) }
    _ = try await scene.unlock("1234")
  }

  @Test("R24: the fourth wrong pattern waits, the tenth is the last; a sign-in enrols another")
  func patternTries() async throws {
    let scene = try await Scene()
    _ = try await scene.harness.enrolPattern("1234", on: scene.device, scene.tokens)
    for _ in 0..<3 { await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock("0000") } }
    let wait = await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await scene.unlock("1234") }
    #expect(wait?.details.retryAfter == .seconds(30))
    for _ in 0..<7 {
      scene.harness.clock.advance(by: .seconds(301))
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock("0000") }
    }
    scene.harness.clock.advance(by: .seconds(301))
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock("1234") }
    scene.harness.clock.advance(by: .seconds(301))
    let guest = try await scene.harness.issueGuest(scene.device)
    let tokens = try await scene.harness.signIn(
      "ada@example.com",
      guest: guest.tokens,
      onConflict: .switch
    ).tokens
    _ = try await scene.harness.enrolPattern("5678", on: scene.device, tokens)
    _ = try await scene.unlock("5678")
  }

  @Test("R24: a right pattern makes its tries begin anew")
  func patternResets() async throws {
    let scene = try await Scene()
    _ = try await scene.harness.enrolPattern("1234", on: scene.device, scene.tokens)
    for _ in 0..<8 {
      for _ in 0..<2 {
        await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock("0000") }
      }
      _ = try await scene.unlock("1234")
    }
  }

  @Test("R34, R46: to enrol one proves a moment before who one is; a device without a key cannot")
  func enrolment() async throws {
    let scene = try await Scene()
    let key = try P256PrivateKey()
    scene.harness.clock.advance(by: .seconds(301))
    await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") { try await scene.harness.enrolKey(key, scene.tokens) }
    let again = try await scene.harness.signIn("ada@example.com", guest: nil).tokens
    // A session of another device, with none of its own, enrols nothing either.
    await expectRefusal(.failedPrecondition, "DEVICE_KEY_REQUIRED") { try await scene.harness.enrolKey(key, again) }
    let password = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
    let proven = try await scene.harness.auth.stepUp(
      IdentityV1.StepUpRequest(method: .password(password)), options: .bearer(scene.tokens)
    ).tokens
    let proof = try await scene.harness.proof(by: key, for: "latchkey-enrol-unlock-v1")
    let link = IdentityV1.LinkIdentityRequest.Identity.deviceKey(IdentityV1.DeviceKeyEnrolment(proof: proof))
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await scene.harness.link(link, proven, password: "wrong horse battery")
    }
    #expect(try await scene.harness.link(link, proven, password: IdentityHarness.password).linked)
    let keyless = try await scene.harness.register("bob@example.com").tokens
    await expectRefusal(.failedPrecondition, "DEVICE_KEY_REQUIRED") {
      try await scene.harness.enrolKey(try P256PrivateKey(), keyless)
    }
  }

  @Test("R40: a key unlocks one account; of one device's patterns the newest holds")
  func owners() async throws {
    let ada = try await Scene()
    let bob = try await Scene(ada.harness, "bob@example.com")
    let key = try P256PrivateKey()
    _ = try await ada.harness.enrolKey(key, ada.tokens)
    #expect(try await !ada.harness.enrolKey(key, ada.tokens).linked)
    await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await ada.harness.enrolKey(key, bob.tokens) }
    #expect(try await ada.harness.enrolPattern("1111", on: ada.device, ada.tokens).linked)
    #expect(try await !ada.harness.enrolPattern("2222", on: ada.device, ada.tokens).linked)
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await ada.unlock("1111") }
    _ = try await ada.unlock("2222")
  }

  @Test("R16: what unlocks an account is listed, and removed by its owner; the last identifier stays all the same")
  func listed() async throws {
    let scene = try await Scene()
    let key = try P256PrivateKey()
    _ = try await scene.harness.enrolKey(key, scene.tokens)
    scene.harness.clock.advance(by: .seconds(1))
    _ = try await scene.harness.enrolPattern("1234", on: scene.device, scene.tokens)
    let listed = try await scene.list()
    #expect(listed.map(\.kind) == ["email", "device_key", "pattern"])
    func unlink(_ id: String) async throws {
      _ = try await scene.harness.links.unlinkIdentity(
        IdentityV1.UnlinkIdentityRequest(identityID: id, password: IdentityHarness.password),
        options: .bearer(scene.tokens)
      )
    }
    await expectRefusal(.failedPrecondition, "LAST_IDENTITY") { try await unlink(listed[0].identityID) }
    try await unlink(listed[1].identityID)
    await expectRefusal(.notFound, "IDENTITY_NOT_FOUND") { try await unlink(listed[1].identityID) }
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock(key) }
    #expect(try await scene.list().map(\.kind) == ["email", "pattern"])
  }

  enum Farewell: CaseIterable {
    case removeDevice
    case revokeSession
    case revokeOthers
    case logOutEverywhere
  }

  @Test("R16: a device that its owner turns out cannot unlock the account again", arguments: Farewell.allCases)
  func turnedOut(_ farewell: Farewell) async throws {
    let scene = try await Scene()
    let key = try P256PrivateKey()
    _ = try await scene.harness.enrolKey(key, scene.tokens)
    _ = try await scene.harness.enrolPattern("1234", on: scene.device, scene.tokens)
    let other = try await scene.harness.issueGuest(try TestDevice())
    let elsewhere = try await scene.harness.signIn(
      "ada@example.com",
      guest: other.tokens,
      onConflict: .switch
    ).tokens
    switch farewell {
    case .removeDevice:
      _ = try await scene.harness.devices.removeDevice(
        IdentityV1.RemoveDeviceRequest(keyThumbprint: scene.device.key.publicKey.thumbprint),
        options: .bearer(elsewhere)
      )
    case .revokeSession:
      _ = try await scene.harness.sessions.revokeSession(
        IdentityV1.RevokeSessionRequest(sid: scene.tokens.sid),
        options: .bearer(elsewhere)
      )
    case .revokeOthers:
      _ = try await scene.harness.sessions.revokeOtherSessions(
        IdentityV1.RevokeOtherSessionsRequest(),
        options: .bearer(elsewhere)
      )
    case .logOutEverywhere:
      _ = try await scene.harness.logOut(elsewhere, scope: .global)
    }
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock(key) }
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.unlock("1234") }
  }

  @Test("P1: who signs out on a device unlocks the account there again")
  func signedOut() async throws {
    let scene = try await Scene()
    _ = try await scene.harness.enrolPattern("1234", on: scene.device, scene.tokens)
    _ = try await scene.harness.logOut(scene.tokens)
    _ = try await scene.unlock("1234")
  }

  @Test("R36: a QR grant that is settled can do no more, lasts no longer, and ends with its code")
  func qrGrant() async throws {
    let scene = try await Scene()
    let screen = try await scene.harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-1",
        sub: scene.harness.core.tokens.verify(
          scene.tokens.accessToken,
          at: scene.harness.clock.now()
        ).subject,
        confirmedBySid: scene.tokens.sid,
        clientID: "app.test"
      ),
      options: .service
    ).tokens.orThrow()
    scene.harness.clock.advance(by: .seconds(60))
    let first = try await scene.harness.core.session(try SessionID(screen.sid).orThrow()).orThrow()
    let settled = try await scene.harness.authenticate(
      .qrGrant(IdentityV1.QrGrantCredential(accessToken: screen.accessToken))
    ).tokens.orThrow()
    let session = try await scene.harness.core.session(try SessionID(settled.sid).orThrow()).orThrow()
    #expect(settled.scope == "basic profile")
    #expect(session.authenticatedAt == first.authenticatedAt)
    #expect(session.family.absoluteExpiry == first.family.absoluteExpiry)
    #expect(try await !scene.harness.isActive(screen.accessToken))
    let revoked = try await scene.harness.grants.revokeForQr(
      IdentityV1.RevokeForQrRequest(qrSessionID: "qr-1"),
      options: .service
    )
    #expect(revoked.sessionsEnded == 1)
    #expect(try await !scene.harness.isActive(settled.accessToken))
  }

  @Test("G22: what is no proof and no pattern is named")
  func fields() async throws {
    let scene = try await Scene()
    let good = try await scene.harness.proof(by: scene.device.key, for: "latchkey-unlock-v1")
    func authenticate(_ proof: IdentityV1.KeyProof?) async throws -> IdentityV1.AuthenticateResponse {
      try await scene.harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)))
    }
    await expectRefusal(.invalidArgument, field: "device_key.proof") { try await authenticate(nil) }
    var proof = good
    proof.publicKey = nil
    await expectRefusal(.invalidArgument, field: "device_key.proof.public_key") { try await authenticate(proof) }
    proof = good
    proof.challenge = ""
    await expectRefusal(.invalidArgument, field: "device_key.proof.challenge") { try await authenticate(proof) }
    proof = good
    proof.signature = Array(good.signature.dropLast())
    await expectRefusal(.invalidArgument, field: "device_key.proof.signature") { try await authenticate(proof) }
    proof = good
    proof.powSolution = [UInt8](repeating: 0, count: 33)
    await expectRefusal(.invalidArgument, field: "device_key.proof.pow_solution") { try await authenticate(proof) }
    for pattern in ["", "123", String(repeating: "1", count: 65), "1 2 3", "ÄÄÄÄ"] {
      await expectRefusal(.invalidArgument, field: "pattern.pattern") {
        try await scene.harness.authenticate(
          .pattern(IdentityV1.PatternCredential(proof: good, pattern: pattern))
        )
      }
    }
  }
}
