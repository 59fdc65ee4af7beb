import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension QRSessionAPI {
  package func issueSession(
    _ request: QRV1.IssueSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.IssueSessionResponse {
    try await issueSession(request, challengeIsDeviceCode: false, context: context)
  }

  /// Draws codes, stores the session and lets its poller in. The answer leaves after the row is durable, so a restart
  /// knows every code that is on a screen.
  ///
  /// With `challengeIsDeviceCode`, the device code that is drawn is also the verifier, in place of one that the client
  /// made.
  func issueSession(
    _ request: QRV1.IssueSessionRequest,
    challengeIsDeviceCode: Bool,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.IssueSessionResponse {
    var draw = drawCode()
    let challenge = { (secret: PollSecret) in PKCEChallenge(digest: Self.digest(Array(secret.text.utf8))) }
    var wanted = try sessionRequest(request, challengeIsDeviceCode ? challenge(draw) : nil, context)
    try admission.issue(from: context.peer, at: clock.now())
    try await supersede(request.supersedes, context)
    for attempt in 0..<Limits.drawAttempts {
      if attempt > 0 {
        draw = drawCode()
        if challengeIsDeviceCode { wanted.challenge = challenge(draw) }
      }
      let secret = draw
      let reference = QRReference(from: random)
      let userCode = UserCode(random: random)
      let session = QRSession(
        id: QRSessionID(instance: settings.instance, from: random),
        keys: QRSessionKeys(
          pollSecret: Self.digest(secret.bytes),
          reference: Self.digest(reference.bytes),
          userCode: Self.digest(userCode.letters)
        ),
        request: wanted,
        issued: clock.now(),
        lifetime: settings.lifetime
      )
      guard try await isInserted(session) else { continue }
      table.insert(session)
      record(.issued, session, address: wanted.initiator.address)
      let payload = QRPayload(base: settings.verificationBase, reference: reference).text
      return QRV1.IssueSessionResponse(
        deviceCode: secret.text,
        userCode: userCode.text,
        verificationURI: settings.verificationBase.text + "/q",
        verificationURIComplete: payload,
        qrPayload: payload,
        expiresIn: (session.expires - session.issued).secondsRoundedUp,
        interval: settings.interval.secondsRoundedUp,
        checkCode: risk.mayNeedCheckCode(wanted) ? checkCode(of: session).text : "",
        beacon: beacon(of: session).text
      )
    }
    throw RPCError(.unavailable, "no code could be drawn", retryAfter: .seconds(1))
  }

  /// Current for as long as an instance may show the code's session, which a confirmation has live longer.
  private func drawCode() -> PollSecret {
    let end = clock.now() + settings.lifetime + QRLimits.redeemWindow + Limits.pollRetention
    return shared?.codes.draw(from: random, expires: end) ?? PollSecret(from: random)
  }

  /// False when a code of the session is in use.
  private func isInserted(_ session: QRSession) async throws(RPCError) -> Bool {
    do throws(StorageError) {
      try await store.insert(session)
      return true
    } catch {
      if error.isUniqueViolation { return false }
      let refusal = refusal(error)
      guard error.fault == .outcomeUnknown else { throw refusal }
      let found = try await stored { () throws(StorageError) in try await self.store.session(session.id) }
      guard found == session else { throw refusal }
      return true
    }
  }

  /// The two digits on the initiating screen (S9).
  func checkCode(of session: QRSession) -> CheckCode {
    let preimage = CheckCode.preimage(pollSecret: session.keys.pollSecret, challenge: session.request.challenge)
    return CheckCode(derivedFrom: Self.digest(preimage))
  }

  /// What the initiating device broadcasts (S10).
  func beacon(of session: QRSession) -> Beacon {
    let preimage = Beacon.preimage(pollSecret: session.keys.pollSecret, challenge: session.request.challenge)
    return Beacon(derivedFrom: Self.digest(preimage))
  }

  /// One screen shows one code: the one before dies with the next, so that nobody confirms what is no longer to be
  /// seen.
  private func supersede(_ text: String, _ context: ServerContext) async throws(RPCError) {
    guard !text.isEmpty else { return }
    guard let code = PollSecret(text: text) else { throw .invalid("supersedes", "is a device code") }
    try cell.requireSame(code.cell)
    let secret = Self.digest(code.bytes)
    try await meetCurrent(code, secret, from: context.peer)
    // Forgotten: it ended a while ago.
    guard let view = table.view(secret, at: clock.now()) else { return }
    switch view.state {
    case .scanned, .confirmed: throw .codeClaimed
    case .denied, .expired, .cancelled, .consumed: return
    case .pending: break
    }
    let found = try await stored { () throws(StorageError) in try await self.store.session(pollSecret: secret) }
    guard let found else { return }
    let (outcome, session) = try await decide(on: found) { session, now in
      session.state(at: now) == .pending ? session.cancel(at: now) : .alreadyOver
    }
    if outcome == .cancelled {
      ended(session)
      record(.cancelled, session, address: context.peer.address)
    } else if !session.state(at: clock.now()).isFinal {
      throw .codeClaimed
    }
  }

  private func sessionRequest(
    _ request: QRV1.IssueSessionRequest,
    _ ownChallenge: PKCEChallenge?,
    _ context: ServerContext
  ) throws(RPCError) -> QRSessionRequest {
    guard let clientID = ClientID(request.clientID) else {
      throw .invalid("client_id", "1 to 64 lower-case letters, digits, '.', '_' and '-'")
    }
    if let clients = settings.clients, !clients.contains(clientID) {
      throw RPCError(.permissionDenied, "client_id is not registered", reason: "unauthorized_client")
    }
    guard let purpose = QRPurpose(rawValue: Int(request.purpose.rawValue)) else {
      throw .invalid("purpose", "must be one that this service offers")
    }
    guard let scope = Scope(request.scope) else {
      throw .invalid("scope", "must be scope tokens separated by spaces")
    }
    guard request.codeChallengeMethod == "S256" else {
      throw .invalid("code_challenge_method", "must be S256")
    }
    guard let challenge = ownChallenge ?? PKCEChallenge(text: request.codeChallenge) else {
      throw .invalid("code_challenge", "must be the 43 characters of a SHA-256 in base64url")
    }
    let key = try request.deviceKey.map { jwk throws(RPCError) in try publicKey(jwk, "device_key") }
    let refusal = settings.trustedInitiators.refusal(
      client: clientID, keyThumbprint: key?.thumbprint, address: context.peer.address)
    if let refusal { throw .untrusted(refusal, client: clientID) }
    guard key != nil || !purpose.needsDeviceKey else {
      throw .invalid("device_key", "is what the grant is for: \(purpose.name) needs one")
    }
    let action = try action(request.action, purpose)
    var sessionID: SessionID?
    if case .subject(let caller) = context.caller { sessionID = SessionID(caller.sessionID) }
    let initiator = QRInitiator(
      // Whoever says nothing of itself is shown as what it is registered as: the phone never asks for a stranger (S8).
      label: try text(request.initiator?.label, "initiator.label")
        ?? settings.clientNames[clientID] ?? DisplayText(clientID.description),
      platform: try text(request.initiator?.platform, "initiator.platform"),
      app: try text(request.initiator?.app, "initiator.app"),
      address: context.peer.address,
      keyThumbprint: key?.thumbprint,
      sessionID: sessionID
    )
    return QRSessionRequest(
      purpose: purpose,
      clientID: clientID,
      scope: purpose.scope(asked: scope),
      challenge: challenge,
      initiator: initiator,
      deviceKey: key.map { $0.x + $0.y },
      action: action
    )
  }

  private func action(_ action: QRV1.Action?, _ purpose: QRPurpose) throws(RPCError) -> QRAction? {
    guard purpose == .confirmAction else {
      guard action == nil else { throw .invalid("action", "belongs to PURPOSE_CONFIRM_ACTION only") }
      return nil
    }
    guard let action else { throw .invalid("action", "is what is to be confirmed") }
    var amount: QRAmount?
    if !action.amount.isEmpty || !action.currency.isEmpty {
      guard let currency = CurrencyCode(action.currency) else {
        throw .invalid("action.currency", "is three capital letters of ISO 4217, and goes with an amount")
      }
      guard let money = QRAmount(decimal: action.amount, currency: action.currency) else {
        throw .invalid(
          "action.amount",
          "up to \(QRAmount.maximumDigits) digits, then none or the \(currency.decimals) decimals of \(currency), without a sign"
        )
      }
      amount = money
    }
    guard QRAction.shown(action.text) != nil else {
      throw .invalid(
        "action.text",
        "1 to \(QRAction.maximumTextCharacters) characters that can be seen, on one line, without gaps")
    }
    guard let registered = QRAction(text: action.text, amount: amount, reference: action.reference) else {
      throw .invalid("action.reference", "at most \(QRAction.maximumReferenceBytes) visible ASCII characters")
    }
    return registered
  }

  private func text(_ text: String?, _ field: String) throws(RPCError) -> DisplayText? {
    guard let text, !text.isEmpty else { return nil }
    guard let shown = DisplayText(plain: text) else {
      throw .invalid(field, "at most \(DisplayText.maximumCharacters) characters that can be seen, on one line")
    }
    return shown
  }

  func publicKey(_ jwk: CommonV1.EcPublicJwk, _ field: String) throws(RPCError) -> P256PublicKey {
    guard jwk.kty == "EC", jwk.crv == "P-256" else { throw .invalid(field, "must be an EC key on P-256") }
    guard let x = Base64URL.decode(jwk.x), x.count == 32, let y = Base64URL.decode(jwk.y), y.count == 32,
      let key = try? P256PublicKey(x: x, y: y)
    else { throw .invalid(field, "x and y must be a point on P-256, 32 bytes each in base64url") }
    return key
  }
}
