import Cryptography
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

  @Test("S17, R36: a confirmed code gets a session of its own, with the scope of a screen and a shorter life")
  func issue() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let screen = try await harness.grants.issueForQr(request(account), options: .service)
    #expect(screen.subject?.sub == account.subject?.sub)
    #expect(screen.tokens?.sid != account.tokens?.sid)
    #expect(screen.tokens?.scope == "basic profile")
    #expect(screen.profile?.name == "Ada")
    let session = try await harness.core.session(
      try SessionID(try screen.tokens.orThrow().sid).orThrow())
    #expect(session?.method == .qr)
    #expect(session?.device.label?.description == "Ada's desktop")
    #expect(session?.family.absoluteExpiry == harness.clock.now() + .seconds(30 * 86_400))
    #expect(try await harness.isActive(try account.tokens.orThrow().accessToken))
  }

  @Test("G5: a screen is told where to keep what belongs to its account, as the phone was")
  func storageNamespace() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let screen = try await harness.grants.issueForQr(request(account), options: .service)
    #expect(!screen.storageNamespace.isEmpty && screen.storageNamespace == account.storageNamespace)
  }

  @Test("S5: a call whose turn is over ends nothing of what a later one issued, and says so")
  func turns() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    func ask(_ turn: Int64) -> IdentityV1.IssueForQrRequest {
      var asked = request(account)
      asked.turn = turn
      return asked
    }
    let screen = try await harness.grants.issueForQr(ask(2), options: .service)
    for turn in [1, 2] as [Int64] {
      await expectRefusal(.aborted, "QR_TURN_OVER") {
        try await harness.grants.issueForQr(ask(turn), options: .service)
      }
    }
    #expect(try await harness.isActive(try screen.tokens.orThrow().accessToken))
    // A QR service of before tells no turn.
    let untold = try await harness.grants.issueForQr(ask(0), options: .service)
    #expect(try await !harness.isActive(try screen.tokens.orThrow().accessToken))
    #expect(try await harness.isActive(try untold.tokens.orThrow().accessToken))
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

  @Test("Q12: a device is bound by its key, and who starts with that key is told which account it was used for")
  func bindDevice() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let device = try TestDevice()
    var bind = request(account)
    bind.kind = .bindDevice
    let keyless = bind
    await expectRefusal(.invalidArgument, field: "device_key") {
      try await harness.grants.issueForQr(keyless, options: .service)
    }
    bind.deviceKey = device.jwk
    let screen = try await harness.grants.issueForQr(bind, options: .service)
    #expect(screen.tokens?.cnfJkt == device.key.publicKey.thumbprint)
    let start = try await harness.issueGuest(device)
    #expect(start.lastLoginHint?.accountMask == EmailAddress("ada@example.com")?.mask)
  }

  @Test("S20: a guest moves to the key that was confirmed, its old device finds another, and LOGIN moves none")
  func transferGuest() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(old)
    var transfer = IdentityV1.IssueForQrRequest(
      qrSessionID: "qr-move", sub: guest.subject?.sub ?? "", confirmedBySid: guest.tokens?.sid ?? "",
      clientID: "app.test", deviceKey: new.jwk)
    let signIn = transfer
    await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") {
      try await harness.grants.issueForQr(signIn, options: .service)
    }
    transfer.kind = .transfer
    let moved = try await harness.grants.issueForQr(transfer, options: .service)
    #expect(moved.subject == guest.subject)
    #expect(moved.tokens?.scope == "basic")
    #expect(try await !harness.isActive(try guest.tokens.orThrow().accessToken))
    // A lost answer: the same move again, one live session.
    let again = try await harness.grants.issueForQr(transfer, options: .service)
    #expect(again.subject == guest.subject)
    #expect(try await !harness.isActive(try moved.tokens.orThrow().accessToken))
    #expect(try await harness.isActive(try again.tokens.orThrow().accessToken))
    #expect(try await harness.issueGuest(new).subject == guest.subject)
    let fresh = try await harness.issueGuest(old)
    #expect(fresh.created && fresh.subject != guest.subject)
  }

  @Test("S19, S20: revoking a move gives the guest back to its old device, and to nobody else")
  func revokedTransfer() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(old)
    let transfer = IdentityV1.IssueForQrRequest(
      qrSessionID: "qr-move", sub: guest.subject?.sub ?? "", confirmedBySid: guest.tokens?.sid ?? "",
      clientID: "app.test", deviceKey: new.jwk, kind: .transfer)
    let moved = try await harness.grants.issueForQr(transfer, options: .service)
    let revoke = IdentityV1.RevokeForQrRequest(qrSessionID: "qr-move", reason: "reused")
    #expect(try await harness.grants.revokeForQr(revoke, options: .service).sessionsEnded == 1)
    #expect(try await !harness.isActive(try moved.tokens.orThrow().accessToken))
    #expect(try await harness.issueGuest(old).subject == guest.subject)
    #expect(try await harness.issueGuest(new).subject != guest.subject)
  }

  @Test("S18, S20: an account that moves stays on its old device, and the new one cannot end it for a day")
  func transferAccount() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    let transfer = IdentityV1.IssueForQrRequest(
      qrSessionID: "qr-move", sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
      clientID: "app.test", scope: "basic profile account", deviceKey: try TestDevice().jwk, kind: .transfer)
    let moved = try await harness.grants.issueForQr(transfer, options: .service)
    #expect(moved.subject == account.subject)
    #expect(try await harness.isActive(try account.tokens.orThrow().accessToken))
    let session = try await harness.core.session(
      try SessionID(try moved.tokens.orThrow().sid).orThrow())
    #expect(session?.isConfirmed == false)
    harness.clock.advance(by: .seconds(86_400))
    #expect(session?.isConfirmed == false)
  }

  private func confirmation(
    _ account: IdentityV1.RegisterResponse, _ device: TestDevice
  ) throws -> IdentityV1.SignConfirmationRequest {
    let parts = ["latchkey-action-v1", "shop", "Pay Corner Shop", "129.90", "EUR", "order-7"]
    let digest = Base64URL.encode(SHA256Hash.hash(Array(parts.joined(separator: "\0").utf8)))
    let ticket = Base64URL.encode(SHA256Hash.hash(Array("a ticket".utf8)))
    let message = ["latchkey-qr-confirm-v1", ticket, digest].joined(separator: "\0")
    return IdentityV1.SignConfirmationRequest(
      qrSessionID: "qr-pay", sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
      clientID: "shop", confirmedAt: GoogleProtobuf.Timestamp(seconds: 1_790_000_000), actionText: "Pay Corner Shop",
      amount: "129.90", currency: "EUR", reference: "order-7", actionDigest: digest, deviceKey: device.jwk,
      signature: try device.key.sign(Array(message.utf8)), ticketDigest: ticket)
  }

  @Test("Q12: a confirmation says who, for whom, what and when, by the published keys, and is no access token")
  func signConfirmation() async throws {
    let harness = try await IdentityHarness()
    let phone = try TestDevice()
    let account = try await harness.register("ada@example.com", guest: try await harness.issueGuest(phone).tokens)
    let request = try confirmation(account, phone)
    let jws = try await harness.grants.signConfirmation(request, options: .service).jws
    let parsed = try CompactJWS(parsing: jws)
    try parsed.checkHeader(type: "latchkey-confirmation+jwt")
    let published = try harness.core.tokens.keys.published.orThrow()
    let key = try published[parsed.header["kid"]?.string ?? ""].orThrow()
    let claims = try parsed.verifiedPayload(with: key)
    #expect(claims["iss"]?.string == "http://identity.test")
    #expect(claims["aud"]?.string == "shop")
    #expect(claims["sub"]?.string == account.subject?.sub)
    #expect(claims["sid"]?.string == account.tokens?.sid)
    #expect(claims["jti"]?.string == "qr-pay")
    #expect(claims["iat"] == .integer(1_790_000_000))
    #expect(claims["action"]?["amount"]?.string == "129.90")
    #expect(claims["action"]?["text"]?.string == "Pay Corner Shop")
    #expect(claims["action_digest"]?.string == request.actionDigest)
    #expect(claims["proof"]?["signature"]?.string == Base64URL.encode(request.signature))
    #expect(throws: RPCError.self) { try harness.core.tokens.verify(jws, at: harness.clock.now()) }
  }

  @Test(
    "Q12: identity signs nothing that the session's own device did not sign",
    arguments: ["amount", "action_digest", "signature", "device_key", "session", "revoked"])
  func forgedConfirmation(part: String) async throws {
    let harness = try await IdentityHarness()
    let (phone, thief) = (try TestDevice(), try TestDevice())
    let account = try await harness.register("ada@example.com", guest: try await harness.issueGuest(phone).tokens)
    var request = try confirmation(account, phone)
    switch part {
    case "amount": request.amount = "1.00"
    case "action_digest": request.actionDigest = Base64URL.encode(SHA256Hash.hash([]))
    case "signature": request.signature = try confirmation(account, thief).signature
    case "device_key": request = try confirmation(account, thief)
    case "session": _ = try await harness.logOut(account.tokens)
    default:
      _ = try await harness.grants.revokeForQr(IdentityV1.RevokeForQrRequest(qrSessionID: "qr-pay"), options: .service)
    }
    let forged = request
    switch part {
    case "session":
      await expectRefusal(.failedPrecondition, "CONFIRMER_GONE") {
        try await harness.grants.signConfirmation(forged, options: .service)
      }
    case "revoked":
      await expectRefusal(.failedPrecondition, "QR_REVOKED") {
        try await harness.grants.signConfirmation(forged, options: .service)
      }
    default:
      await expectRefusal(.invalidArgument, field: part == "amount" ? "action_digest" : part) {
        try await harness.grants.signConfirmation(forged, options: .service)
      }
    }
  }

  @Test("S11, R46: the key of a device that a code let in is said to be that, until its owner steps up there")
  func keyOfTheLetIn() async throws {
    let harness = try await IdentityHarness()
    let (phone, other) = (try TestDevice(), try TestDevice())
    let account = try await harness.register("ada@example.com", guest: try await harness.issueGuest(phone).tokens)
    func isLetIn(_ tokens: CommonV1.TokenSet?) async throws -> Bool {
      try await harness.grants.describeSubject(
        IdentityV1.DescribeSubjectRequest(sub: account.subject?.sub ?? "", sid: tokens?.sid ?? ""), options: .service
      ).deviceKeyLetIn
    }
    let moved = try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-1", sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
        clientID: "app.test", deviceKey: other.jwk, kind: .transfer),
      options: .service
    ).tokens
    #expect(try await !isLetIn(account.tokens))
    #expect(try await isLetIn(moved))
    _ = try await harness.sessions.confirmSession(
      IdentityV1.ConfirmSessionRequest(sid: moved?.sid ?? ""), options: .bearer(account.tokens))
    #expect(try await isLetIn(moved))
    harness.clock.advance(by: .seconds(1))
    var unbound = try moved.orThrow()
    let session = try await harness.core.session(try SessionID(unbound.sid).orThrow()).orThrow()
    unbound.accessToken = try harness.core.tokens.delegatedToken(of: session, at: harness.clock.now())
    let password = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
    _ = try await harness.auth.stepUp(
      IdentityV1.StepUpRequest(method: .password(password)), options: .bearer(unbound))
    #expect(try await !isLetIn(moved))
  }

  @Test("S11: a session's device key is told to services, for a live session of that subject only")
  func deviceKey() async throws {
    let harness = try await IdentityHarness()
    let phone = try TestDevice()
    let account = try await harness.register("ada@example.com", guest: try await harness.issueGuest(phone).tokens)
    let bob = try await harness.register("bob@example.com")
    func key(_ sub: String?, _ sid: String?) async throws -> String {
      let request = IdentityV1.DescribeSubjectRequest(sub: sub ?? "", sid: sid ?? "")
      return try await harness.grants.describeSubject(request, options: .service).deviceKeyThumbprint
    }
    #expect(try await key(account.subject?.sub, account.tokens?.sid) == phone.key.publicKey.thumbprint)
    #expect(try await key(bob.subject?.sub, account.tokens?.sid) == "")
    #expect(try await key(account.subject?.sub, "") == "")
    _ = try await harness.logOut(account.tokens)
    #expect(try await key(account.subject?.sub, account.tokens?.sid) == "")
  }
}
