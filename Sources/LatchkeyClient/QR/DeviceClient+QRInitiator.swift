import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Asks for a code to show on this screen.
  ///
  /// A code for this device's key (``QRSignInPurpose/bindDevice``, ``QRSignInPurpose/transferGuest``) makes the key
  /// when there is none yet. `old` is the ticket of the code that was on this screen before; it is cancelled.
  public func issueQRCode(
    _ wanted: QRCodeRequest,
    superseding old: QRTicket? = nil
  ) async throws(ClientError) -> QROffer {
    let jwk =
      wanted.purpose.needsDeviceKey
      ? CommonV1.EcPublicJwk(try privateKey(of: try deviceRecordOrNew()).publicKey) : try bindingKey()
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let verifier = Base64URL.encode(SecureRandom.bytes(32))
    let request = QRV1.IssueSessionRequest(
      clientID: configuration.clientID,
      purpose: wanted.purpose.proto,
      scope: wanted.scope,
      codeChallenge: Base64URL.encode(SHA256Hash.hash(Array(verifier.utf8))),
      codeChallengeMethod: "S256",
      initiator: QRV1.Initiator(
        label: wanted.initiator.label,
        platform: wanted.initiator.platform,
        app: wanted.initiator.app
      ),
      deviceKey: jwk,
      action: wanted.action.map {
        QRV1.Action(text: $0.text, amount: $0.amount, currency: $0.currency, reference: $0.reference)
      },
      supersedes: old?.deviceCode ?? ""
    )
    let answer = try await open { options throws(RPCError) in
      try await service.issueSession(request, options: options.naming(old.map { Cell.read($0.deviceCode).cell }))
    }
    guard !answer.qrPayload.isEmpty, !answer.deviceCode.isEmpty else {
      throw .incompleteAnswer("IssueSessionResponse.qr_payload")
    }
    return QROffer(
      payload: answer.qrPayload,
      userCode: answer.userCode,
      verificationURI: answer.verificationURI,
      expiresIn: .told(seconds: answer.expiresIn),
      interval: .told(seconds: answer.interval),
      checkCode: answer.checkCode,
      beacon: answer.beacon,
      ticket: QRTicket(
        deviceCode: answer.deviceCode,
        codeVerifier: verifier,
        needsDeviceProof: jwk != nil
      )
    )
  }

  /// Asks for a code to show on this screen.
  public func issueQRCode(
    _ initiator: QRInitiator,
    purpose: QRSignInPurpose = .login,
    scope: String = ""
  ) async throws(ClientError) -> QROffer {
    try await issueQRCode(QRCodeRequest(initiator: initiator, purpose: purpose, scope: scope))
  }

  /// Shows codes until one is decided: whenever one expires unscanned, `shown` is handed the next (Q2).
  ///
  /// - Parameters:
  ///   - limit: how many codes nobody has to scan before this ends as ``QRProgress/expired``; by default half an hour of
  ///     them.
  ///   - shown: draws the code, and counts its time down.
  ///   - changed: as in ``awaitQRSignIn(_:changed:)``.
  public func showQRCodes(
    _ wanted: QRCodeRequest,
    atMost limit: Int = 15,
    shown: (QROffer) async throws -> Void,
    changed: (QRProgress) -> Void = { _ in }
  ) async throws -> QRProgress {
    var unscanned = 0
    while true {
      let offer = try await issueQRCode(wanted)
      try await shown(offer)
      var isScanned = false
      let end = try await awaitQRSignIn(offer.ticket, within: offer.expiresIn) { progress in
        if case .scanned = progress { isScanned = true }
        changed(progress)
      }
      guard end == .expired else { return end }
      unscanned = isScanned ? 0 : unscanned + 1
      if unscanned >= limit { return end }
    }
  }

  /// Waits until the sign-in ends, one way or the other, and calls `changed` with each state on the way.
  ///
  /// A service that restarts meanwhile, or a network that comes and goes, is waited for; a service that asks to be
  /// polled more slowly is obeyed.
  public func awaitQRSignIn(
    _ ticket: QRTicket,
    changed: (QRProgress) -> Void = { _ in }
  ) async throws(ClientError) -> QRProgress {
    try await awaitQRSignIn(ticket, within: nil, changed: changed)
  }

  /// `lifetime` is the code's, as its issuer said: once it is over here and the service cannot be asked, nobody can scan
  /// the code any more, so it counts as expired.
  private func awaitQRSignIn(
    _ ticket: QRTicket,
    within lifetime: Duration?,
    changed: (QRProgress) -> Void
  ) async throws(ClientError) -> QRProgress {
    let end = lifetime.map { clock.now() + $0 }
    var isScanned = false
    var version: Int64 = 0
    var pause = Backoff()
    while true {
      let answer: QRV1.PollSessionResponse
      do throws(ClientError) {
        answer = try await poll(ticket, lastVersion: version, wait: Limits.longPoll)
        pause = Backoff()
      } catch {
        guard case .call(let failure) = error else { throw error }
        if let end = QRProgress(ended: failure) { return end }
        if let end, !isScanned, failure.isRetryable, clock.now() >= end { return .expired }
        guard failure.isRetryable, let next = pause.next(atLeast: failure.retryAfter) else { throw error }
        try await sleep(next)
        continue
      }
      let progress = try progress(answer)
      let isNews = answer.version != version
      version = answer.version
      switch progress {
      case .pending, .scanned:
        if case .scanned = progress { isScanned = true }
        // A service that answers at once instead of waiting is not asked at once again.
        if isNews { changed(progress) } else { try await sleep(Limits.firstPause) }
      default:
        changed(progress)
        return progress
      }
    }
  }

  /// Asks once what became of a code.
  public func pollQRSignIn(_ ticket: QRTicket) async throws(ClientError) -> QRProgress {
    do throws(ClientError) {
      return try progress(try await poll(ticket, lastVersion: 0, wait: .zero))
    } catch {
      guard case .call(let failure) = error, let end = QRProgress(ended: failure) else { throw error }
      return end
    }
  }

  /// Gives a code up.
  public func cancelQRCode(_ ticket: QRTicket) async throws(ClientError) {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    _ = try await open { options throws(RPCError) in
      try await service.cancelSession(
        QRV1.CancelSessionRequest(deviceCode: ticket.deviceCode),
        options: options.naming(Cell.read(ticket.deviceCode).cell))
    }
  }

  private func poll(
    _ ticket: QRTicket,
    lastVersion: Int64,
    wait: Duration
  ) async throws(ClientError) -> QRV1.PollSessionResponse {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let signed = QRRedeemProof.message(deviceCode: ticket.deviceCode)
    let request = QRV1.PollSessionRequest(
      deviceCode: ticket.deviceCode,
      codeVerifier: ticket.codeVerifier,
      lastVersion: lastVersion,
      waitMs: Int32(wait.wholeMilliseconds),
      deviceProof: ticket.needsDeviceProof ? try signature(over: signed) : []
    )
    return try await open(timeout: wait + Limits.longPollMargin) { options throws(RPCError) in
      try await service.pollSession(request, options: options.naming(Cell.read(ticket.deviceCode).cell))
    }
  }

  private func progress(_ answer: QRV1.PollSessionResponse) throws(ClientError) -> QRProgress {
    switch answer.state {
    case .pending: return .pending
    case .scanned: return .scanned(by: answer.scannerMask)
    case .denied: return .denied
    case .expired: return .expired
    case .cancelled: return .cancelled
    case .confirmed, .consumed:
      if let confirmation = answer.confirmation {
        return .confirmed(
          QRConfirmation(
            jws: confirmation.jws,
            confirmedAt: confirmation.confirmedAt?.millisecondsSinceEpoch,
            actionDigest: confirmation.actionDigest
          )
        )
      }
      guard answer.tokens != nil else {
        return answer.state == .consumed ? .consumed : .scanned(by: answer.scannerMask)
      }
      return .signedIn(
        try finish(
          tokens: answer.tokens,
          subject: answer.subject,
          profile: answer.profile,
          change: nil,
          namespace: answer.storageNamespace
        )
      )
    default:
      throw .incompleteAnswer("PollSessionResponse.state is \(answer.state), which this client does not know")
    }
  }
}

extension QRProgress {
  /// How a code ended that polls are refused for (RFC 8628 section 3.5). Nil for any other failure.
  fileprivate init?(ended failure: CallFailure) {
    switch failure.reason {
    case "access_denied": self = .denied
    case "expired_token": self = .expired
    default: return nil
    }
  }
}
