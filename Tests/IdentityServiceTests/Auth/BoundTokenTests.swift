import Cryptography
import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService
@testable import ServiceRuntime

/// Tokens that are bound to a key (RFC 9449).
@Suite("Bound tokens")
struct BoundTokenTests {
  typealias Auth = IdentityV1.AuthServiceMethod

  private let key: P256PrivateKey

  init() throws {
    key = try P256PrivateKey()
  }

  /// A proof for one call of a method.
  private func proof(
    _ harness: IdentityHarness, _ method: RPCMethod, by signer: P256PrivateKey? = nil, nonce: String? = nil,
    token: String? = nil
  ) throws -> String {
    var claims: [JSONValue.Member] = [
      .init("jti", .string(Base64URL.encode(SecureRandom.bytes(16)))), .init("htm", "POST"),
      .init("htu", .string("https://identity.test\(method.path)")),
      .init("iat", .integer(harness.clock.now().secondsSinceEpoch)),
    ]
    if let nonce { claims.append(.init("nonce", .string(nonce))) }
    if let token { claims.append(.init("ath", .string(Base64URL.encode(SHA256Hash.hash(Array(token.utf8)))))) }
    let signer = signer ?? key
    let header: JSONValue = ["typ": "dpop+jwt", "alg": "ES256", "jwk": signer.publicKey.jwk(id: "k")]
    return try CompactJWS.sign(header: header, payload: .object(claims), with: signer)
  }

  private func options(
    _ harness: IdentityHarness, _ method: RPCMethod, by signer: P256PrivateKey? = nil, nonce: String? = nil,
    token: String? = nil
  ) throws -> CallOptions {
    var metadata: Metadata = ["dpop": try proof(harness, method, by: signer, nonce: nonce, token: token)]
    if let token { metadata.add("authorization", "DPoP \(token)") }
    return CallOptions(metadata: metadata)
  }

  private func signIn(_ harness: IdentityHarness, _ options: CallOptions? = nil) async throws -> CommonV1.TokenSet {
    let credential = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
    return try await harness.auth.authenticate(
      IdentityV1.AuthenticateRequest(clientID: "app.test", method: .password(credential)),
      options: options ?? (try self.options(harness, Auth.authenticate.rpc))
    ).tokens.orThrow()
  }

  private func refresh(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet, _ options: CallOptions
  ) async throws -> CommonV1.TokenSet {
    try await harness.auth.refresh(
      IdentityV1.RefreshRequest(refreshToken: tokens.refreshToken), options: options
    ).tokens.orThrow()
  }

  private func sessions(_ harness: IdentityHarness, _ options: CallOptions) async throws -> Int {
    try await harness.sessions.listSessions(IdentityV1.ListSessionsRequest(), options: options).sessions.count
  }

  @Test("R21: a bound refresh token rotates for its own key alone; another device's is refused and changes nothing")
  func refreshes() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let first = try await signIn(harness)
    #expect(first.tokenType == "DPoP" && first.cnfJkt == key.publicKey.thumbprint)
    let thief = try P256PrivateKey()
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") {
      try await refresh(harness, first, try options(harness, Auth.refresh.rpc, by: thief))
    }
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") { try await refresh(harness, first, CallOptions()) }
    let second = try await refresh(harness, first, try options(harness, Auth.refresh.rpc))
    #expect(second.tokenType == "DPoP" && second.cnfJkt == key.publicKey.thumbprint)
    // Nor does the thief end the session by showing the old one again and again.
    _ = try await refresh(harness, second, try options(harness, Auth.refresh.rpc))
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") {
      try await refresh(harness, first, try options(harness, Auth.refresh.rpc, by: thief))
    }
    #expect(try await harness.isActive(second.accessToken))
  }

  @Test("R22: a bound access token is nothing without its key, and a proof is good for one call")
  func access() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let tokens = try await signIn(harness)
    let list = IdentityV1.SessionServiceMethod.listSessions.rpc
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") { try await sessions(harness, .bearer(tokens)) }
    let call = try options(harness, list, token: tokens.accessToken)
    #expect(try await sessions(harness, call) == 2)
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") { try await sessions(harness, call) }
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") {
      try await sessions(harness, try options(harness, list, by: try P256PrivateKey(), token: tokens.accessToken))
    }
    let once = try options(harness, Auth.refresh.rpc)
    let next = try await refresh(harness, tokens, once)
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") { try await refresh(harness, next, once) }
  }

  @Test("R22: every call that begins a session binds it; the guest after a sign-out stays bound")
  func everyBeginning() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let issue = try device.issueRequest(try await harness.challenge(for: device))
    let guest = try await harness.guests.issueGuest(
      issue, options: try options(harness, IdentityV1.GuestServiceMethod.issueGuest.rpc)
    ).tokens
    #expect(guest?.cnfJkt == key.publicKey.thumbprint)
    let account = try await harness.auth.register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password),
        guestToken: guest?.accessToken ?? ""),
      options: try options(harness, Auth.register.rpc)
    ).tokens.orThrow()
    #expect(account.cnfJkt == key.publicKey.thumbprint)
    let left = try await harness.auth.logout(
      IdentityV1.LogoutRequest(scope: .local, next: .guest),
      options: try options(harness, Auth.logout.rpc, token: account.accessToken))
    #expect(left.tokens?.cnfJkt == key.publicKey.thumbprint)
  }

  @Test("R22: a proof that does not hold is no sign-in without one")
  func brokenProof() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    for proof in ["", "x", try proof(harness, Auth.refresh.rpc)] {
      await expectRefusal(.unauthenticated, "invalid_dpop_proof") {
        try await signIn(harness, CallOptions(metadata: ["dpop": proof]))
      }
    }
    var twice: Metadata = ["dpop": try proof(harness, Auth.authenticate.rpc)]
    twice.add("dpop", try proof(harness, Auth.authenticate.rpc))
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") {
      try await signIn(harness, CallOptions(metadata: twice))
    }
  }

  @Test("R22: where proofs need a nonce the refusal hands one out, which holds for some minutes")
  func nonces() async throws {
    let harness = try await IdentityHarness(proofs: DPoPVerifier(needsNonces: true))
    _ = try await harness.register("ada@example.com")
    let refusal = await expectRefusal(.unauthenticated, "use_dpop_nonce") { try await signIn(harness) }
    let nonce = try (refusal?.metadata["dpop-nonce"]).orThrow()
    #expect(refusal?.details.info == [RPCError.KeyValue("dpop_nonce", nonce)])
    let tokens = try await signIn(harness, try options(harness, Auth.authenticate.rpc, nonce: nonce))
    let list = IdentityV1.SessionServiceMethod.listSessions.rpc
    await expectRefusal(.unauthenticated, "use_dpop_nonce") {
      try await sessions(harness, try options(harness, list, token: tokens.accessToken))
    }
    #expect(try await sessions(harness, try options(harness, list, nonce: nonce, token: tokens.accessToken)) == 2)
    await expectRefusal(.unauthenticated, "use_dpop_nonce") {
      try await refresh(harness, tokens, try options(harness, Auth.refresh.rpc, nonce: "made-up"))
    }
    harness.clock.advance(by: .seconds(240))
    let stale = await expectRefusal(.unauthenticated, "use_dpop_nonce") {
      try await refresh(harness, tokens, try options(harness, Auth.refresh.rpc, nonce: nonce))
    }
    let fresh = try (stale?.metadata["dpop-nonce"]).orThrow()
    #expect(fresh != nonce)
    _ = try await refresh(harness, tokens, try options(harness, Auth.refresh.rpc, nonce: fresh))
  }

  @Test("R50: proofs by self-made keys are not remembered where nothing else of the call holds")
  func strangersProofs() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let device = try TestDevice()
    for _ in 0..<3 {
      let stranger = try P256PrivateKey()
      await #expect(throws: RPCError.self) {
        try await harness.auth.refresh(
          IdentityV1.RefreshRequest(refreshToken: "lkr_made-up"),
          options: try options(harness, Auth.refresh.rpc, by: stranger))
      }
      await #expect(throws: RPCError.self) {
        try await harness.auth.authenticate(
          IdentityV1.AuthenticateRequest(
            clientID: "app.test",
            method: .password(.init(identifier: "ada@example.com", password: "a wrong password"))),
          options: try options(harness, Auth.authenticate.rpc, by: stranger))
      }
      await #expect(throws: RPCError.self) {
        try await harness.auth.register(
          IdentityV1.RegisterRequest(
            clientID: "app.test",
            password: .init(identifier: "ada@example.com", password: IdentityHarness.password)),
          options: try options(harness, Auth.register.rpc, by: stranger))
      }
      await #expect(throws: RPCError.self) {
        try await harness.guests.issueGuest(
          try device.issueRequest("made-up"),
          options: try options(harness, IdentityV1.GuestServiceMethod.issueGuest.rpc, by: stranger))
      }
    }
    #expect(harness.core.proofs.count == 0)
  }

  @Test("R50: a session that is bound to no key is refreshed with any number of keys, and none of them is remembered")
  func unboundRefreshes() async throws {
    let harness = try await IdentityHarness()
    let unbound = try await harness.register("ada@example.com").tokens.orThrow()
    for _ in 0..<8 {
      // The same token again and again: it brings the same new one until that is used.
      let stranger = try P256PrivateKey()
      let next = try await refresh(harness, unbound, try options(harness, Auth.refresh.rpc, by: stranger))
      #expect(next.sid == unbound.sid && next.cnfJkt.isEmpty)
    }
    #expect(harness.core.proofs.count == 0)
    let bound = try await signIn(harness)
    let before = harness.core.proofs.count
    let once = try options(harness, Auth.refresh.rpc)
    let next = try await refresh(harness, bound, once)
    #expect(harness.core.proofs.count == before + 1)
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") { try await refresh(harness, next, once) }
  }

  @Test("R50: an answer that is given again to other keys than the first is remembered for none of these")
  func repeatedAnswers() async throws {
    let harness = try await IdentityHarness()
    let credential = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
    func register(by signer: P256PrivateKey) async throws -> CommonV1.TokenSet {
      var shown = try options(harness, Auth.register.rpc, by: signer)
      shown.metadata.add("idempotency-key", "tap")
      return try await harness.auth.register(
        IdentityV1.RegisterRequest(clientID: "app.test", password: credential), options: shown
      ).tokens.orThrow()
    }
    let account = try await register(by: key)
    for _ in 0..<3 {
      let again = try await register(by: try P256PrivateKey())
      #expect(again.sid == account.sid && again.cnfJkt == key.publicKey.thumbprint)
    }
    #expect(harness.core.proofs.count == 1)
    let redeem = try await transfer(harness, of: account)
    let moved = try await redeem(key)
    let before = harness.core.proofs.count
    for _ in 0..<3 {
      let again = try await redeem(try P256PrivateKey())
      #expect(again.sid == moved.sid && again.cnfJkt == key.publicKey.thumbprint)
    }
    #expect(harness.core.proofs.count == before)
  }

  /// Offers the session of these tokens, and redeems the offer on another device: as often as is asked for, by a key.
  private func transfer(
    _ harness: IdentityHarness, of tokens: CommonV1.TokenSet
  ) async throws -> (P256PrivateKey) async throws -> CommonV1.TokenSet {
    let method = IdentityV1.TransferServiceMethod.createTransfer.rpc
    let offer = try await harness.transfers.createTransfer(
      IdentityV1.CreateTransferRequest(), options: try options(harness, method, token: tokens.accessToken))
    let device = try TestDevice()
    let challenge = try await harness.challenge(for: device)
    let parts = [device.clientID, device.deviceID, challenge, offer.code]
    let request = IdentityV1.RedeemTransferRequest(
      secret: .code(offer.code), clientID: device.clientID, device: try device.issueRequest(challenge).device,
      challenge: challenge, proof: try device.sign("latchkey-transfer-proof-v1", parts), keepOld: true)
    return { signer in
      let shown = try options(harness, IdentityV1.TransferServiceMethod.redeemTransfer.rpc, by: signer)
      return try await harness.transfers.redeemTransfer(request, options: shown).tokens.orThrow()
    }
  }

  @Test("R22, R50: a conflict counts for the key of the guest who is told of it, and is told to any other for nothing")
  func conflicts() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let unbound = try await harness.issueGuest(try TestDevice()).tokens.orThrow()
    let device = try TestDevice()
    let bound = try await harness.guests.issueGuest(
      try device.issueRequest(try await harness.challenge(for: device)),
      options: try options(harness, IdentityV1.GuestServiceMethod.issueGuest.rpc)
    ).tokens.orThrow()
    let before = harness.core.proofs.count
    let credential = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
    func meet(_ guest: CommonV1.TokenSet, _ options: CallOptions) async throws -> IdentityV1.Conflict {
      try await harness.auth.authenticate(
        IdentityV1.AuthenticateRequest(
          clientID: "app.test", method: .password(credential), guestToken: guest.accessToken),
        options: options
      ).conflict.orThrow()
    }
    for _ in 0..<3 {
      let stranger = try P256PrivateKey()
      _ = try await meet(unbound, try options(harness, Auth.authenticate.rpc, by: stranger))
    }
    #expect(harness.core.proofs.count == before)
    let once = try options(harness, Auth.authenticate.rpc)
    _ = try await meet(bound, once)
    // Whoever saw that call must not make it again, to choose what becomes of the guest.
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") { try await meet(bound, once) }
  }

  @Test("R22: of two calls that show one proof at the same time, one gets through")
  func sameProofAtOnce() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let shown = try options(harness, Auth.authenticate.rpc)
    let begun = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<4 { group.addTask { (try? await signIn(harness, shown)) != nil } }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(begun == 1 && harness.core.proofs.count == 1)
  }

  @Test("R22: a proof that began a session with a token beside it begins none without, and the other way round")
  func oneMemory() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let tokens = try await signIn(harness)
    let proof = try options(harness, Auth.refresh.rpc, token: tokens.accessToken)
    let next = try await refresh(harness, tokens, proof)
    let bare = CallOptions(metadata: ["dpop": try proof.metadata["dpop"].orThrow()])
    await expectRefusal(.unauthenticated, "invalid_dpop_proof") { try await refresh(harness, next, bare) }
  }

  @Test("R22: what a code granted to a key is settled by that key alone")
  func qrGrant() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let jwk = CommonV1.EcPublicJwk(
      kty: "EC", crv: "P-256", x: Base64URL.encode(key.publicKey.x), y: Base64URL.encode(key.publicKey.y))
    let screen = try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-1", sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
        clientID: "app.test", deviceKey: jwk),
      options: .service
    ).tokens.orThrow()
    let request = IdentityV1.AuthenticateRequest(
      clientID: "app.test", method: .qrGrant(IdentityV1.QrGrantCredential(accessToken: screen.accessToken)))
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { try await harness.auth.authenticate(request) }
    await expectRefusal(.unauthenticated, "PROOF_INVALID") {
      try await harness.auth.authenticate(
        request, options: try options(harness, Auth.authenticate.rpc, by: try P256PrivateKey()))
    }
    let settled = try await harness.auth.authenticate(
      request, options: try options(harness, Auth.authenticate.rpc))
    #expect(settled.tokens?.cnfJkt == key.publicKey.thumbprint)
  }

  @Test("R21, R43: who takes a cloned guest's place is bound to their key as the guest was, whatever their call proved")
  func cloneStaysBound() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    func issue(_ counter: Int64) async throws -> IdentityV1.IssueGuestResponse {
      try await harness.guests.issueGuest(
        old.issueRequest(try await harness.challenge(for: old), counter: counter),
        options: try options(harness, IdentityV1.GuestServiceMethod.issueGuest.rpc, by: old.key))
    }
    #expect(try await issue(5).tokens?.cnfJkt == old.key.publicKey.thumbprint)
    await expectRefusal(.failedPrecondition, "DEVICE_CLONED") { try await issue(5) }
    let challenge = try await harness.challenge(for: old)
    let parts = [new.clientID, new.deviceID, challenge]
    let answer = try await harness.devices.resolveClone(
      IdentityV1.ResolveCloneRequest(
        clientID: new.clientID, choice: .transfer, oldKey: old.jwk, device: try new.issueRequest("x").device,
        challenge: challenge,
        oldProof: try old.sign("latchkey-rotate-key-v1", parts + [new.key.publicKey.thumbprint]),
        newProof: try new.sign("latchkey-rotated-key-v1", parts + [old.key.publicKey.thumbprint])))
    #expect(answer.tokens?.cnfJkt == new.key.publicKey.thumbprint && answer.tokens?.tokenType == "DPoP")
  }
}
