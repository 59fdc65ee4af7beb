import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Claims the code that this phone's camera read, and learns who asks. Signs nobody in.
  ///
  /// The content must be a code of this installation, by exact scheme, host, port and path; anything else is
  /// ``ClientError/foreignCode`` and no call is made.
  public func scanQRCode(_ content: String) async throws(ClientError) -> QRScan {
    guard let base = QRVerificationBase(configuration.qrBase) else { throw .foreignCode }
    let payload: QRPayload
    do throws(QRPayload.Refusal) {
      payload = try QRPayload(reading: content, base: base)
    } catch {
      throw .foreignCode
    }
    return try await scan(.qrPayload(payload.text))
  }

  /// The same for the code that a person typed.
  public func scanUserCode(_ code: String) async throws(ClientError) -> QRScan {
    try await scan(.userCode(code))
  }

  /// The person agreed. `checkCode` is what they typed when ``QRScan/needsCheckCode`` asked for it.
  public func confirmQRCode(
    ticket: String,
    checkCode: String = "",
    scopeSubset: String = ""
  ) async throws(ClientError) {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let request = QRV1.ConfirmSessionRequest(
      confirmTicket: ticket,
      checkCode: checkCode,
      scopeSubset: scopeSubset
    )
    _ = try await authorized { options throws(RPCError) in
      try await service.confirmSession(request, options: options)
    }
  }

  /// The person refused. Final.
  public func denyQRCode(ticket: String, reportAbuse: Bool = false) async throws(ClientError) {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let request = QRV1.DenySessionRequest(confirmTicket: ticket, reportAbuse: reportAbuse)
    _ = try await authorized { options throws(RPCError) in
      try await service.denySession(request, options: options)
    }
  }

  private func scan(_ code: QRV1.ScanSessionRequest.Code) async throws(ClientError) -> QRScan {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let answer = try await authorized { options throws(RPCError) in
      try await service.scanSession(QRV1.ScanSessionRequest(code: code), options: options)
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
      isSameNetwork: answer.risk?.distance == .sameNetwork,
      signals: answer.risk?.signals ?? [],
      needsCheckCode: answer.needsCheckCode,
      needsReauthentication: answer.needsReauth,
      expiresIn: .seconds(answer.expiresIn)
    )
  }
}
