import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// A new phone without an account: the old one makes a code, the new one shows it and proves its own key.
///
/// ```
/// old device                       new device
/// offerTransfer ── code ─────────▶ inspectTransfer   the person sees what would move
/// cancelTransfer (any time)        redeemTransfer    the guest or account is here
/// ```
extension DeviceClient {
  /// Offers whoever uses this device to another one, once and for ten minutes.
  public func offerTransfer(
    oldDevice: OldDevice = .either,
    sameNetworkOnly: Bool = false
  ) async throws(ClientError) -> TransferOffer {
    let service = IdentityV1.TransferServiceClient(channel: identity)
    let request = IdentityV1.CreateTransferRequest(oldDevice: oldDevice.proto, sameNetwork: sameNetworkOnly)
    let answer = try await authorized { options throws(RPCError) in
      try await service.createTransfer(request, options: options)
    }
    return TransferOffer(
      code: answer.code,
      payload: answer.qrPayload,
      expiresIn: .told(seconds: answer.expiresIn),
      transferID: answer.transferID
    )
  }

  /// Takes an offer back. False when it had been redeemed or had expired.
  public func cancelTransfer(_ transferID: String) async throws(ClientError) -> Bool {
    let service = IdentityV1.TransferServiceClient(channel: identity)
    let request = IdentityV1.CancelTransferRequest(transferID: transferID)
    return try await authorized { options throws(RPCError) in
      try await service.cancelTransfer(request, options: options)
    }.cancelled
  }

  /// What a code would move to this device. Changes nothing.
  public func inspectTransfer(_ secret: TransferSecret) async throws(ClientError) -> TransferPreview {
    let service = IdentityV1.TransferServiceClient(channel: identity)
    var request = IdentityV1.InspectTransferRequest()
    switch secret {
    case .code(let code): request.secret = .code(code)
    case .payload(let payload): request.secret = .qrPayload(payload)
    }
    let ask = request
    let answer = try await open { options throws(RPCError) in
      try await service.inspectTransfer(ask, options: options)
    }
    return TransferPreview(
      isGuest: answer.isGuest,
      accountMask: answer.accountMask,
      deviceLabel: answer.deviceLabel,
      platform: answer.platform,
      expiresIn: .told(seconds: answer.expiresIn),
      oldDevice: OldDevice(answer.oldDevice),
      isSameNetwork: answer.sameNetwork
    )
  }

  /// Makes this device the guest's or account's. Whoever used it before is replaced; their data stays under their own
  /// namespace.
  ///
  /// An answer that is lost is asked for again with the same proof, and is the same.
  public func redeemTransfer(
    _ secret: TransferSecret,
    keepOld: Bool,
    _ device: DeviceDescription
  ) async throws(ClientError) -> SignIn {
    var record = try deviceRecordOrNew()
    let key = try privateKey(of: record)
    let challenge = try await challenge(for: key.publicKey)
    let text: String
    var request = IdentityV1.RedeemTransferRequest(
      clientID: configuration.clientID,
      device: IdentityV1.Device(device, id: record.deviceID, key: key.publicKey),
      challenge: challenge.challenge,
      powSolution: try ProofOfWork.solution(of: challenge.challenge, leadingZeroBits: challenge.powBits),
      keepOld: keepOld
    )
    switch secret {
    case .code(let code): (text, request.secret) = (code, .code(code))
    case .payload(let payload): (text, request.secret) = (payload, .qrPayload(payload))
    }
    request.proof = try signature(
      of: key, DeviceProof.transferContext,
      [configuration.clientID, record.deviceID, challenge.challenge, text])
    let answer = try await redeem(request)
    let subject = try require(answer.subject, "RedeemTransferResponse.subject")
    let session = stored(
      try require(answer.tokens, "RedeemTransferResponse.tokens"),
      sub: subject.sub,
      isGuest: subject.isGuest,
      namespace: answer.storageNamespace
    )
    try keep(session)
    if record.registration == .pending {
      record.registration = .registered
      try keep(record)
    }
    return SignIn(
      session: session.session,
      profile: Profile(
        name: answer.profile?.name ?? "",
        avatarURL: answer.profile?.avatarURL ?? "",
        locale: answer.profile?.locale ?? ""
      ),
      change: AccountChange(
        previousSubject: answer.previousSub.isEmpty ? nil : SubjectID(answer.previousSub),
        promoted: false,
        wipeRequired: !answer.previousSub.isEmpty,
        migrationID: nil,
        migrationPending: false
      )
    )
  }

  private func redeem(
    _ request: IdentityV1.RedeemTransferRequest
  ) async throws(ClientError) -> IdentityV1.RedeemTransferResponse {
    let service = IdentityV1.TransferServiceClient(channel: identity)
    for _ in 0..<Limits.redeemTries - 1 {
      do throws(ClientError) {
        return try await open { options throws(RPCError) in
          try await service.redeemTransfer(request, options: options)
        }
      } catch {
        guard error.isRetryable else { throw error }
      }
    }
    return try await open { options throws(RPCError) in
      try await service.redeemTransfer(request, options: options)
    }
  }
}
