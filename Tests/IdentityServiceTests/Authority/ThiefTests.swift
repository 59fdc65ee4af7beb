import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

/// What somebody gets who was let in a little, or who stole a token.
@Suite("A thief gets no more than the owner agreed to")
struct ThiefTests {
  private let harness: IdentityHarness
  private let owner: IdentityV1.RegisterResponse
  private let phone: TestDevice
  private let thief: TestDevice

  init() async throws {
    harness = try await IdentityHarness()
    phone = try TestDevice()
    thief = try TestDevice()
    let guest = try await harness.issueGuest(phone)
    owner = try await harness.register("ada@example.com", guest: guest.tokens)
  }

  /// What the thief gets when the owner, or another session of the account, confirms a code of the thief's.
  private func grant(
    _ kind: IdentityV1.QrGrantKind, _ code: String, scope: String = "", key: TestDevice? = nil, by sid: String? = nil
  ) async throws -> IdentityV1.IssueForQrResponse {
    try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: code, sub: owner.subject?.sub ?? "", confirmedBySid: sid ?? owner.tokens?.sid ?? "",
        clientID: "app.test", scope: scope, deviceLabel: "New phone", platform: "iOS", deviceKey: key?.jwk, kind: kind,
        confirmerAuthTime: .init(harness.clock.now())),
      options: .service)
  }

  private func stored(_ tokens: CommonV1.TokenSet?) async throws -> Session {
    let id = try SessionID(try tokens.orThrow().sid).orThrow()
    return try await harness.core.session(id).orThrow()
  }

  /// The tokens as a call may bring them that proves no key: what is tried here is not the binding.
  private func unbound(_ tokens: CommonV1.TokenSet?) async throws -> CommonV1.TokenSet {
    var tokens = try tokens.orThrow()
    tokens.accessToken = try harness.core.tokens.delegatedToken(of: try await stored(tokens), at: harness.clock.now())
    return tokens
  }

  @Test("R43: a transfer that an account confirms is as old a proof as the phone's, and changes nothing of who gets in")
  func transferByAccount() async throws {
    let signedIn = harness.clock.now()
    harness.clock.advance(by: .seconds(600))
    let moved = try await grant(.transfer, "qr-1", key: thief)
    #expect(try await stored(moved.tokens).authenticatedAt == signedIn)
    let tokens = try await unbound(moved.tokens)
    await #expect(throws: RPCError.self) { try await harness.enrolKey(thief.key, tokens) }
    await #expect(throws: RPCError.self) { try await harness.enrolPattern("147896", on: thief, tokens) }
    await #expect(throws: RPCError.self) {
      try await harness.sessions.revokeOtherSessions(.init(), options: .bearer(tokens))
    }
    #expect(try await harness.isActive(try await harness.refresh(owner.tokens).accessToken))
  }

  @Test("R43: what a code begins is as old a proof as the token that confirmed it, and none where nobody says which")
  func confirmedByOlderToken() async throws {
    let signedIn = harness.clock.now()
    harness.clock.advance(by: .seconds(120))
    let password = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
    _ = try await harness.auth.stepUp(
      IdentityV1.StepUpRequest(method: .password(password)), options: .bearer(owner.tokens))
    func proof(by token: GoogleProtobuf.Timestamp?, _ code: String) async throws -> LatchkeyModel.Timestamp {
      let request = IdentityV1.IssueForQrRequest(
        qrSessionID: code, sub: owner.subject?.sub ?? "", confirmedBySid: owner.tokens?.sid ?? "",
        clientID: "app.test", confirmerAuthTime: token)
      return try await stored(try await harness.grants.issueForQr(request, options: .service).tokens).authenticatedAt
    }
    #expect(try await proof(by: .init(signedIn), "qr-1") == signedIn)
    #expect(try await proof(by: .init(harness.clock.now()), "qr-2") == harness.clock.now())
    #expect(try await proof(by: nil, "qr-3") == Timestamp(millisecondsSinceEpoch: 0))
    await expectRefusal(.invalidArgument, field: "confirmer_auth_time") {
      try await proof(by: GoogleProtobuf.Timestamp(seconds: .max), "qr-4")
    }
  }

  @Test("S20: a transfer that was just agreed to is no confirmed session either")
  func freshTransferByAccount() async throws {
    let tokens = try await unbound(try await grant(.transfer, "qr-1", key: thief).tokens)
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") { try await harness.enrolKey(thief.key, tokens) }
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") {
      try await harness.transfers.createTransfer(.init(), options: .bearer(tokens))
    }
  }

  @Test("R46: a stolen access token makes no transfer, so it ends nobody's session by one")
  func transferByStolenToken() async throws {
    harness.clock.advance(by: .seconds(600))
    let refused = await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") {
      try await harness.transfers.createTransfer(.init(), options: .bearer(owner.tokens))
    }
    #expect(refused?.details.info.contains(RPCError.KeyValue("max_age", "300")) == true)
  }

  @Test("R43, S11: a transfer's session is as old a proof as the one that made it, however late it is redeemed")
  func redeemedTransfer() async throws {
    let signedIn = harness.clock.now()
    harness.clock.advance(by: .seconds(120))
    let offer = try await harness.transfers.createTransfer(.init(), options: .bearer(owner.tokens))
    harness.clock.advance(by: .seconds(400))
    let challenge = try await harness.challenge(for: thief)
    let proof = try thief.sign(
      "latchkey-transfer-proof-v1", [thief.clientID, thief.deviceID, challenge, offer.code])
    let redeemed = try await harness.transfers.redeemTransfer(
      IdentityV1.RedeemTransferRequest(
        secret: .code(offer.code), clientID: thief.clientID, device: try thief.issueRequest(challenge).device,
        challenge: challenge, proof: proof, keepOld: true))
    let (session, source) = (try await stored(redeemed.tokens), try await stored(owner.tokens))
    #expect(session.authenticatedAt == signedIn)
    #expect(session.family.absoluteExpiry <= source.family.absoluteExpiry)
    #expect(!session.isConfirmed)
  }

  @Test("R43: an offer that was made before a step-up is none on its proof")
  func offerBeforeStepUp() async throws {
    harness.clock.advance(by: .seconds(120))
    let offer = try await harness.transfers.createTransfer(.init(), options: .bearer(owner.tokens))
    harness.clock.advance(by: .seconds(1))
    let password = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
    _ = try await harness.auth.stepUp(
      IdentityV1.StepUpRequest(method: .password(password)), options: .bearer(owner.tokens))
    let challenge = try await harness.challenge(for: thief)
    let proof = try thief.sign(
      "latchkey-transfer-proof-v1", [thief.clientID, thief.deviceID, challenge, offer.code])
    await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
      try await harness.transfers.redeemTransfer(
        IdentityV1.RedeemTransferRequest(
          secret: .code(offer.code), clientID: thief.clientID, device: try thief.issueRequest(challenge).device,
          challenge: challenge, proof: proof, keepOld: true))
    }
  }

  @Test("S18: a session that a code began and nobody confirmed lets nobody else in, and no day changes that")
  func unconfirmedConfirms() async throws {
    let phished = try await grant(.signIn, "qr-1", scope: "basic profile account")
    for kind in [IdentityV1.QrGrantKind.signIn, .bindDevice, .transfer] {
      await expectRefusal(.failedPrecondition, "CONFIRMER_GONE") {
        try await grant(kind, "qr-2", scope: "account", key: thief, by: phished.tokens?.sid)
      }
    }
    harness.clock.advance(by: .seconds(25 * 3600))
    let later = try await harness.refresh(phished.tokens)
    await #expect(throws: RPCError.self) {
      try await harness.sessions.revokeOtherSessions(.init(), options: .bearer(later))
    }
    #expect(try await harness.isActive(try await harness.refresh(owner.tokens).accessToken))
  }

  @Test("S19, R36, R44: revoking a code ends what came of it through three more, and the keys that were enrolled there")
  func chain() async throws {
    let first = try await grant(.signIn, "qr-1", scope: "basic profile account")
    _ = try await harness.sessions.confirmSession(
      IdentityV1.ConfirmSessionRequest(sid: first.tokens?.sid ?? ""), options: .bearer(owner.tokens))
    let second = try await grant(.transfer, "qr-2", key: thief, by: first.tokens?.sid)
    _ = try await harness.sessions.confirmSession(
      IdentityV1.ConfirmSessionRequest(sid: second.tokens?.sid ?? ""), options: .bearer(owner.tokens))
    let third = try await grant(.signIn, "qr-3", by: second.tokens?.sid)
    let key = try P256PrivateKey()
    _ = try await harness.enrolKey(key, try await unbound(second.tokens))
    let proof = try await harness.proof(by: key, for: "latchkey-unlock-v1")
    let fourth = try await harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)))
    let revoke = IdentityV1.RevokeForQrRequest(qrSessionID: "qr-1", reason: "reported")
    _ = try await harness.grants.revokeForQr(revoke, options: .service)
    for tokens in [first.tokens, second.tokens, third.tokens, fourth.tokens] {
      #expect(try await !harness.isActive(try tokens.orThrow().accessToken))
    }
    #expect(try await harness.isActive(try owner.tokens.orThrow().accessToken))
    let again = try await harness.proof(by: key, for: "latchkey-unlock-v1")
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: again)))
    }
  }

  @Test("S16, R36: a session with the scope basic reads no profile and changes nothing of the account")
  func narrowScope() async throws {
    let screen = try await grant(.signIn, "qr-1", scope: "basic").tokens
    let caller = CallOptions.bearer(screen)
    await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
      try await harness.guests.exportGuest(.init(), options: caller) { parts throws(RPCError) in
        for try await _ in parts {}
      }
    }
    let rename = IdentityV1.RenameDeviceRequest(keyThumbprint: phone.key.publicKey.thumbprint, label: "Mine")
    await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
      try await harness.devices.renameDevice(rename, options: caller)
    }
    await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
      try await harness.links.listIdentities(.init(), options: caller)
    }
  }

  @Test("R43: a link ticket keeps what bound the device: its scope, its key and how old its proof is")
  func ticket() async throws {
    let signedIn = harness.clock.now()
    let bound = try await grant(.bindDevice, "qr-1", scope: "basic", key: thief)
    #expect(bound.tokens?.scope == "basic")
    harness.clock.advance(by: .seconds(3600))
    let guest = try await harness.issueGuest(thief)
    let proof = try await harness.proof(by: thief.key, for: "latchkey-unlock-v1")
    let conflict = try await harness.authenticate(
      .deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)), guest: guest.tokens, onConflict: .report)
    let ticket = try conflict.conflict.orThrow().linkTicket
    harness.clock.advance(by: .seconds(60))
    let signedInByTicket = try await harness.auth.authenticate(
      IdentityV1.AuthenticateRequest(
        clientID: "app.test", guestToken: guest.tokens?.accessToken ?? "", onConflict: .switch, linkTicket: ticket))
    let session = try await stored(signedInByTicket.tokens)
    #expect(session.scope.description == "basic" && session.boundKeyThumbprint == thief.key.publicKey.thumbprint)
    #expect(session.authenticatedAt == signedIn && session.method == .qr)
    #expect(!session.isConfirmed)
  }

  @Test("R44: an address that a thief linked goes with the session, also when they took the owner's off before")
  func addressOfThief() async throws {
    _ = try await harness.link(.identifier("eve_0"), owner.tokens)
    let identities = try await harness.links.listIdentities(.init(), options: .bearer(owner.tokens)).identities
    let own = try identities.first { $0.kind == "email" }.orThrow()
    let elsewhere = try await harness.signIn("ada@example.com")
    _ = try await harness.links.unlinkIdentity(.init(identityID: own.identityID), options: .bearer(owner.tokens))
    _ = try await harness.sessions.revokeSession(
      IdentityV1.RevokeSessionRequest(sid: owner.tokens?.sid ?? ""), options: .bearer(elsewhere.tokens))
    let left = try await harness.links.listIdentities(.init(), options: .bearer(elsewhere.tokens)).identities
    #expect(left.isEmpty)
    _ = try await harness.link(.identifier("ada_lovelace"), elsewhere.tokens)
  }

  @Test("R44: where nobody is signed in any more, the last address stays, whoever linked it")
  func lastAddress() async throws {
    _ = try await harness.link(.identifier("ada_lovelace"), owner.tokens)
    let identities = try await harness.links.listIdentities(.init(), options: .bearer(owner.tokens)).identities
    let first = try identities.first { $0.kind == "email" }.orThrow()
    _ = try await harness.links.unlinkIdentity(.init(identityID: first.identityID), options: .bearer(owner.tokens))
    _ = try await harness.sessions.revokeSession(
      IdentityV1.RevokeSessionRequest(sid: owner.tokens?.sid ?? ""), options: .bearer(owner.tokens))
    #expect(try await harness.signIn("ada_lovelace").subject?.sub == owner.subject?.sub)
  }

  @Test("R44: a link ticket dies when its account is signed out everywhere and when its credential is unlinked")
  func ticketEnds() async throws {
    let guest = try await harness.issueGuest(thief)
    func ticket() async throws -> String {
      try await harness.signIn("ada@example.com", guest: guest.tokens, onConflict: .report).conflict.orThrow()
        .linkTicket
    }
    func redeem(_ ticket: String) async throws -> IdentityV1.AuthenticateResponse {
      try await harness.auth.authenticate(
        IdentityV1.AuthenticateRequest(
          clientID: "app.test", guestToken: guest.tokens?.accessToken ?? "", onConflict: .switch, linkTicket: ticket))
    }
    _ = try await harness.link(.identifier("ada_lovelace"), owner.tokens, password: IdentityHarness.password)
    let unlinked = try await ticket()
    let identities = try await harness.links.listIdentities(.init(), options: .bearer(owner.tokens)).identities
    let address = try identities.first { $0.kind == "email" }.orThrow()
    _ = try await harness.links.unlinkIdentity(
      IdentityV1.UnlinkIdentityRequest(identityID: address.identityID, password: IdentityHarness.password),
      options: .bearer(owner.tokens))
    await expectRefusal(.failedPrecondition) { try await redeem(unlinked) }
    let other = try await harness.signIn("ada_lovelace", guest: guest.tokens, onConflict: .report)
    let loggedOut = try other.conflict.orThrow().linkTicket
    _ = try await harness.logOut(owner.tokens, scope: .global)
    await expectRefusal(.failedPrecondition) { try await redeem(loggedOut) }
  }
}
