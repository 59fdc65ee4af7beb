import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Grants to QR sessions")
struct QRGrantTests {
  private func request(
    _ account: IdentityV1.RegisterResponse, id: String = "qr-1", scope: String = ""
  ) -> IdentityV1.IssueForQrRequest {
    IdentityV1.IssueForQrRequest(
      qrSessionID: id,
      sub: account.subject?.sub ?? "",
      confirmedBySid: account.tokens?.sid ?? "",
      clientID: "desktop",
      scope: scope,
      deviceLabel: "Ada's desktop",
      platform: "Linux"
    )
  }

  @Test("S17 R36: a confirmed code gets a session of its own, with the scope of a screen and a shorter life")
  func issue() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let screen = try await harness.grants.issueForQr(request(account), options: .service)
    #expect(screen.subject?.sub == account.subject?.sub)
    #expect(screen.tokens?.sid != account.tokens?.sid)
    #expect(screen.tokens?.scope == "basic profile")
    #expect(screen.profile?.name == "Ada")
    let session = try await harness.core.sessions.session(
      try SessionID(try screen.tokens.orThrow().sid).orThrow())
    #expect(session?.method == .qr)
    #expect(session?.device.label?.description == "Ada's desktop")
    #expect(session?.family.absoluteExpiry == harness.clock.now() + .seconds(30 * 86_400))
    #expect(try await harness.isActive(try account.tokens.orThrow().accessToken))
  }

  @Test("Q11: the scope is what was asked for and an account may have")
  func scope() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let asked = request(account, scope: "account basic something-else")
    let screen = try await harness.grants.issueForQr(asked, options: .service)
    #expect(screen.tokens?.scope == "account basic")
  }

  @Test("S5: a repeated grant ends what the earlier one issued: one code, one live session, however concurrent")
  func idempotent() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let grant = request(account)
    let answers = try await withThrowingTaskGroup(of: IdentityV1.IssueForQrResponse.self) { group in
      for _ in 0..<20 { group.addTask { try await harness.grants.issueForQr(grant, options: .service) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    var live = 0
    for answer in answers where try await harness.isActive(try answer.tokens.orThrow().accessToken) { live += 1 }
    #expect(live == 1)
  }

  @Test("S19: revoking a code ends what it issued at once and lets it issue nothing more, also before it issued")
  func revoke() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let screen = try await harness.grants.issueForQr(request(account), options: .service)
    let revoke = IdentityV1.RevokeForQrRequest(qrSessionID: "qr-1", reason: "reported")
    #expect(try await harness.grants.revokeForQr(revoke, options: .service).sessionsEnded == 1)
    #expect(try await harness.grants.revokeForQr(revoke, options: .service).sessionsEnded == 0)
    #expect(try await !harness.isActive(try screen.tokens.orThrow().accessToken))
    #expect(try await harness.isActive(try account.tokens.orThrow().accessToken))
    let restarted = try await harness.restarted()
    await expectRefusal(.failedPrecondition, "QR_REVOKED") {
      try await restarted.grants.issueForQr(request(account), options: .service)
    }
    let early = IdentityV1.RevokeForQrRequest(qrSessionID: "qr-2")
    #expect(try await restarted.grants.revokeForQr(early, options: .service).sessionsEnded == 0)
    await expectRefusal(.failedPrecondition, "QR_REVOKED") {
      try await restarted.grants.issueForQr(request(account, id: "qr-2"), options: .service)
    }
  }

  @Test("S23: an account is described by its mask, a guest and nobody by none, and only to services")
  func describe() async throws {
    let harness = try await IdentityHarness()
    let ada = try await harness.register("ada@example.com")
    let guest = try await harness.issueGuest(try TestDevice())
    func mask(_ sub: String?) async throws -> String {
      let request = IdentityV1.DescribeSubjectRequest(sub: sub ?? "")
      return try await harness.grants.describeSubject(request, options: .service).mask
    }
    let shown = try await mask(ada.subject?.sub)
    #expect(shown == EmailAddress("ada@example.com")?.mask)
    #expect(!shown.isEmpty && !shown.contains("ada"))
    #expect(try await mask(guest.subject?.sub) == "")
    #expect(try await mask(Base64URL.encode([UInt8](repeating: 7, count: 16))) == "")
    await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
      try await harness.grants.describeSubject(
        IdentityV1.DescribeSubjectRequest(sub: ada.subject?.sub ?? ""), options: .bearer(ada.tokens))
    }
    await expectRefusal(.invalidArgument, field: "sub") {
      try await harness.grants.describeSubject(IdentityV1.DescribeSubjectRequest(sub: "x"), options: .service)
    }
  }

  @Test("R34: a guest, an ended session and someone else's session confirm nothing")
  func confirmers() async throws {
    let harness = try await IdentityHarness()
    let ada = try await harness.register("ada@example.com")
    let bob = try await harness.register("bob@example.com")
    let guest = try await harness.issueGuest(try TestDevice())
    var byGuest = request(ada)
    byGuest.sub = guest.subject?.sub ?? ""
    byGuest.confirmedBySid = guest.tokens?.sid ?? ""
    let guestGrant = byGuest
    await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") {
      try await harness.grants.issueForQr(guestGrant, options: .service)
    }
    var byBob = request(ada)
    byBob.confirmedBySid = bob.tokens?.sid ?? ""
    let bobGrant = byBob
    await expectRefusal(.failedPrecondition, "CONFIRMER_GONE") {
      try await harness.grants.issueForQr(bobGrant, options: .service)
    }
    _ = try await harness.logOut(ada.tokens)
    await expectRefusal(.failedPrecondition, "CONFIRMER_GONE") {
      try await harness.grants.issueForQr(request(ada), options: .service)
    }
  }

  @Test("R8: no user's token reaches the grant service, and the service credential is no user's token")
  func access() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
      try await harness.grants.issueForQr(request(account), options: .bearer(account.tokens))
    }
    await expectRefusal(.unauthenticated, "SERVICE_ONLY") { try await harness.grants.issueForQr(request(account)) }
    await expectRefusal(.permissionDenied, "USER_TOKEN_REQUIRED") {
      try await harness.auth.logout(IdentityV1.LogoutRequest(), options: .service)
    }
  }

  @Test("S16: tokens for a device key are bound to it")
  func bound() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let device = try TestDevice()
    var grant = request(account)
    grant.deviceKey = device.jwk
    let screen = try await harness.grants.issueForQr(grant, options: .service)
    #expect(screen.tokens?.tokenType == "DPoP")
    #expect(screen.tokens?.cnfJkt == device.key.publicKey.thumbprint)
    let claims = try harness.core.tokens.verify(
      try screen.tokens.orThrow().accessToken, at: harness.clock.now())
    #expect(claims.keyThumbprint == device.key.publicKey.thumbprint)
  }

  @Test(
    "Every invalid field of a grant is named by its path",
    arguments: ["qr_session_id", "sub", "confirmed_by_sid", "client_id", "scope", "device_label", "device_key.kty"])
  func invalidFields(field: String) async throws {
    let harness = try await IdentityHarness()
    var grant = request(try await harness.register("ada@example.com"))
    switch field {
    case "qr_session_id": grant.qrSessionID = "with space"
    case "sub": grant.sub = "x"
    case "confirmed_by_sid": grant.confirmedBySid = ""
    case "client_id": grant.clientID = "NOT"
    case "scope": grant.scope = "a\"b"
    case "device_label": grant.deviceLabel = "a\u{202E}b"
    default: grant.deviceKey = CommonV1.EcPublicJwk()
    }
    let invalid = grant
    await expectRefusal(.invalidArgument, field: field) {
      try await harness.grants.issueForQr(invalid, options: .service)
    }
  }
}
