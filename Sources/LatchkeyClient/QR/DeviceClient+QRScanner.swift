import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Claims the code that this phone's camera read, and learns who asks. Signs nobody in.
  ///
  /// The content must be a code of this installation, by exact scheme, host, port and path; anything else is
  /// ``ClientError/foreignCode`` and no call is made.
  ///
  /// `beacons` are what the phone hears over Bluetooth of devices that show codes.
  public func scanQRCode(_ content: String, beacons: [String] = []) async throws(ClientError) -> QRScan {
    guard let base = QRVerificationBase(configuration.qrBase) else { throw .foreignCode }
    let payload: QRPayload
    do throws(QRPayload.Refusal) {
      payload = try QRPayload(reading: content, base: base)
    } catch {
      throw .foreignCode
    }
    return try await scan(.qrPayload(payload.text), payload.reference.cell, beacons)
  }

  /// The same for the code that a person typed.
  public func scanUserCode(_ code: String, beacons: [String] = []) async throws(ClientError) -> QRScan {
    try await scan(.userCode(code), UserCode(typed: code)?.cell, beacons)
  }

  /// The person agreed. `checkCode` is what they typed when ``QRScan/needsCheckCode`` asked for it.
  ///
  /// With `unlocked` the device key signs the ticket, and the scan's action if there is one: to be said only after the
  /// phone's own lock was opened for this, as ``QRScan/needsReauthentication`` asks for.
  public func confirmQRCode(
    ticket: String,
    checkCode: String = "",
    scopeSubset: String = "",
    unlocked: QRUnlock? = nil
  ) async throws(ClientError) {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let request = QRV1.ConfirmSessionRequest(
      confirmTicket: ticket,
      checkCode: checkCode,
      scopeSubset: scopeSubset,
      reauthProof: try unlocked.map { unlock throws(ClientError) in try proof(of: unlock, ticket) }
    )
    _ = try await authorized { options throws(RPCError) in
      try await service.confirmSession(request, options: options.naming(Cell.read(ticket).cell))
    }
  }

  private func proof(of unlock: QRUnlock, _ ticket: String) throws(ClientError) -> QRV1.ReauthProof {
    guard let record = try deviceRecord() else { throw .deviceKey("this device has made no key") }
    var digest: Digest256?
    if let action = unlock.action {
      guard let client = ClientID(unlock.clientID), let signed = LatchkeyModel.QRAction(action) else {
        throw .incompleteAnswer("ScanSessionResponse.action is none that can be signed")
      }
      digest = Digest256(SHA256Hash.hash(signed.message(client: client)))
    }
    guard let ticketDigest = Digest256(SHA256Hash.hash(Array(ticket.utf8))) else {
      preconditionFailure("SHA-256 gives 32 bytes")
    }
    return QRV1.ReauthProof(
      deviceKey: CommonV1.EcPublicJwk(try privateKey(of: record).publicKey),
      signature: try signature(over: QRConfirmProof.message(ticket: ticketDigest, action: digest))
    )
  }

  /// The person refused. Final.
  public func denyQRCode(ticket: String, reportAbuse: Bool = false) async throws(ClientError) {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let request = QRV1.DenySessionRequest(confirmTicket: ticket, reportAbuse: reportAbuse)
    _ = try await authorized { options throws(RPCError) in
      try await service.denySession(request, options: options.naming(Cell.read(ticket).cell))
    }
  }

  private func scan(
    _ code: QRV1.ScanSessionRequest.Code, _ cell: Cell?, _ beacons: [String]
  ) async throws(ClientError) -> QRScan {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let answer = try await authorized { options throws(RPCError) in
      try await service.scanSession(
        QRV1.ScanSessionRequest(code: code, heardBeacons: beacons), options: options.naming(cell))
    }
    return QRScan(
      confirmTicket: answer.confirmTicket,
      initiator: QRInitiator(
        label: answer.initiator?.label ?? "",
        platform: answer.initiator?.platform ?? "",
        app: answer.initiator?.app ?? ""
      ),
      purpose: QRSignInPurpose(answer.purpose),
      clientID: answer.clientID,
      scope: answer.scope,
      network: answer.risk?.network ?? "",
      distance: QRDistance(answer.risk?.distance ?? .unspecified),
      kilometres: answer.risk.flatMap { $0.distanceKm > 0 ? Int($0.distanceKm) : nil },
      verdict: QRRiskVerdict(answer.risk?.verdict ?? .unspecified),
      signals: answer.risk?.signals ?? [],
      needsCheckCode: answer.needsCheckCode,
      needsReauthentication: answer.needsReauth,
      needsStepUp: answer.needsStepUp,
      expiresIn: .told(seconds: answer.expiresIn),
      action: answer.action.map {
        QRAction(text: $0.text, amount: $0.amount, currency: $0.currency, reference: $0.reference)
      }
    )
  }
}

extension QRDistance {
  init(_ proto: QRV1.Distance) {
    self =
      switch proto {
      case .sameNetwork: .sameNetwork
      case .nearby: .nearby
      case .near: .near
      case .far: .far
      default: .unknown
      }
  }
}

extension QRRiskVerdict {
  /// What this version does not know is worth a warning.
  init(_ proto: QRV1.RiskVerdict) {
    self =
      switch proto {
      case .allow: .allow
      case .stepUp: .stepUp
      default: .warn
      }
  }
}

extension LatchkeyModel.QRAction {
  init?(_ action: LatchkeyClient.QRAction) {
    var amount: QRAmount?
    if !action.amount.isEmpty || !action.currency.isEmpty {
      guard let money = QRAmount(decimal: action.amount, currency: action.currency) else { return nil }
      amount = money
    }
    self.init(text: action.text, amount: amount, reference: action.reference)
  }
}
