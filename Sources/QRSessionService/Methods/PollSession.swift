import GRPC
import LatchkeyModel
import LatchkeyProtos
import NIOCore
import ServiceRuntime
import Storage

extension QRSessionAPI {
  package func pollSession(
    _ request: QRV1.PollSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.PollSessionResponse {
    try await poll(request, by: nil, context: context)
  }

  static func untouched(_ interval: Duration) -> QRV1.PollSessionResponse {
    QRV1.PollSessionResponse(
      state: .pending, version: PollEntry.untouchedVersion, interval: interval.secondsRoundedUp)
  }

  /// What a poll says that redeems nothing.
  static func answer(_ view: PollView, _ interval: Duration) throws(RPCError) -> QRV1.PollSessionResponse {
    switch view.state {
    case .pending, .scanned, .confirmed, .consumed: return QRV1.PollSessionResponse(view, interval: interval)
    case .denied: throw .accessDenied
    case .expired: throw .expired
    case .cancelled: throw .cancelled
    }
  }

  /// With `clientID`, the session must be of that client to be redeemed (RFC 8628 section 3.4).
  func poll(
    _ request: QRV1.PollSessionRequest,
    by clientID: ClientID?,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.PollSessionResponse {
    guard !request.deviceCode.isEmpty else { throw .invalid("device_code", "is what is polled for") }
    guard request.lastVersion >= 0 else { throw .invalid("last_version", "is not below 0") }
    guard (0...QRLimits.maximumWait.wholeMilliseconds).contains(Int64(request.waitMs)) else {
      throw .invalid("wait_ms", "is 0 to \(QRLimits.maximumWait.wholeMilliseconds)")
    }
    let proof = try proof(request.codeVerifier, clientID, request.deviceProof, request.deviceCode)
    let code = try deviceCode(request.deviceCode)
    let secret = Self.digest(code.bytes)

    let waits = request.waitMs > 0
    let now = clock.now()
    // A redeeming poll does not wait once there is something to redeem, so it says nothing of versions then.
    let base = waits ? settings.longPollInterval : settings.interval
    var decision = table.poll(secret, lastVersion: request.lastVersion, waits: waits, base: base, at: now)
    if decision == .unknown {
      // One of another instance's, one whose session ended a while ago, or nobody's.
      let found = try await meet(code, secret, from: context.peer)
      decision = table.poll(secret, lastVersion: request.lastVersion, waits: waits, base: base, at: now)
      if decision == .unknown { return try await answerUnknown(found, proof, context) }
    }
    switch decision {
    case .slowDown(let retryAfter, let interval):
      throw .slowDown(retryAfter: retryAfter, interval: interval)
    case .unknown:
      throw .unknownDeviceCode
    case .untouched(let interval):
      return Self.untouched(interval)
    case .answer(let view, let interval):
      return try await answer(view, interval, proof, context)
    case .wait(let view, let interval):
      // Confirmed and not yet redeemed: who brings the verifier need not wait for anything else.
      if proof != nil, view.state == .confirmed { return try await answer(view, interval, proof, context) }
      let due = Self.due(waiting: .milliseconds(Int64(request.waitMs)), context)
      let wake = await table.change(of: secret, after: request.lastVersion, until: due, at: now)
      if wake == .cancelled { throw RPCError(.cancelled, "the poll was cancelled") }
      guard let changed = table.view(secret, at: clock.now()) else { throw .expired }
      return try await answer(changed, interval, proof, context)
    }
  }

  /// A device code of this cell.
  func deviceCode(_ text: String) throws(RPCError) -> PollSecret {
    guard let code = PollSecret(text: text) else { throw .unknownDeviceCode }
    try cell.requireSame(code.cell)
    return code
  }

  /// As long as the poll wants to wait, and early enough to answer within its deadline.
  private static func due(waiting: Duration, _ context: ServerContext) -> ContinuousClock.Instant {
    let due = ContinuousClock.now + waiting
    guard let deadline = context.deadline else { return due }
    return min(due, deadline - Limits.answerMargin)
  }

  /// What a redeeming poll proves itself by; nil for a poll that brings no verifier.
  func proof(
    _ text: String,
    _ clientID: ClientID?,
    _ deviceProof: [UInt8],
    _ deviceCode: String
  ) throws(RPCError) -> RedeemProof? {
    guard !text.isEmpty else { return nil }
    guard PKCEChallenge.isVerifier(text) else {
      throw .invalid("code_verifier", "43 to 128 letters, digits, '-', '.', '_' and '~'")
    }
    guard deviceProof.isEmpty || deviceProof.count == 64 else {
      throw .invalid("device_proof", "is 64 bytes, r then s")
    }
    let signature =
      deviceProof.isEmpty
      ? nil
      : RedeemProof.DeviceSignature(
        message: QRRedeemProof.message(deviceCode: deviceCode),
        signature: deviceProof
      )
    let bytes = Array(text.utf8)
    return RedeemProof(verifier: Self.digest(bytes), text: bytes, clientID: clientID, signature: signature)
  }

  func answer(
    _ view: PollView,
    _ interval: Duration,
    _ proof: RedeemProof?,
    _ context: ServerContext
  ) async throws(RPCError) -> QRV1.PollSessionResponse {
    var response = try Self.answer(view, interval)
    guard let proof, view.state == .confirmed || view.state == .consumed else { return response }
    let grant = try await redeem(view.id, proof, context)
    // The poll that carries the tokens says what they come from, and says the same when it is repeated; other polls
    // say that the tokens are gone. Consuming is the change after confirming.
    response.state = .confirmed
    response.version = view.state == .consumed ? view.version - 1 : view.version
    response.tokens = grant.tokens
    response.subject = grant.subject
    response.profile = grant.profile
    response.storageNamespace = grant.storageNamespace
    response.confirmation = grant.confirmation
    return response
  }

  /// A code that memory does not know, and what storage knows of it.
  private func answerUnknown(
    _ found: QRSession?,
    _ proof: RedeemProof?,
    _ context: ServerContext
  ) async throws(RPCError) -> QRV1.PollSessionResponse {
    guard let session = found else { throw .unknownDeviceCode }
    let view = PollView(
      id: session.id,
      state: session.state(at: clock.now()),
      version: session.version,
      mask: session.claim?.mask
    )
    return try await answer(view, settings.interval, proof, context)
  }
}

extension QRV1.PollSessionResponse {
  init(_ view: PollView, interval: Duration) {
    self.init(
      state: QRV1.SessionState(rawValue: Int32(view.state.rawValue)),
      version: view.version,
      interval: interval.secondsRoundedUp,
      scannerMask: view.mask?.description ?? ""
    )
  }
}
