import Callers
import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension TransferHandlers {
  /// Begins the session of the guest or account on the device that presents the code.
  package func redeemTransfer(
    _ request: IdentityV1.RedeemTransferRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RedeemTransferResponse {
    let now = clock.now()
    // What is answered again is the first one's key's, and as many others may have proven theirs.
    return try await callers.proofs.withProvenKey(
      context, at: now, remembersIf: { $0.tokens?.cnfJkt == $1 }
    ) { boundKey throws(RPCError) in
      try await redeemTransfer(request, boundKey, context, at: now)
    }
  }

  private func redeemTransfer(
    _ request: IdentityV1.RedeemTransferRequest,
    _ boundKey: String?,
    _ context: ServerContext,
    at now: LatchkeyModel.Timestamp
  ) async throws(RPCError) -> IdentityV1.RedeemTransferResponse {
    let client = try RequestFields.clientID(request.clientID)
    let secret: String
    let hash: [UInt8]
    switch request.secret {
    case .code(let code): (secret, hash) = (code, try self.hash(code: code))
    case .qrPayload(let payload): (secret, hash) = (payload, try self.hash(payload: payload))
    case nil: throw .invalid("secret", "is missing: send code or qr_payload")
    }
    let issuing = try tokens.issuing()
    let proven = try ProvenDevice(
      request.device,
      client: client,
      challenge: request.challenge,
      solution: request.powSolution,
      proof: request.proof,
      challenges,
      at: now
    ) { deviceID in
      DeviceProof.message(
        DeviceProof.transferContext,
        [client.description, deviceID.description, request.challenge, secret]
      )
    }
    let isTyped = if case .code? = request.secret { true } else { false }
    if isTyped { try countTry(context) }
    guard try await look(IsTransferKnown(hash)) else { throw .transferNotFound }
    let redemption = RedeemTransfer(
      secretHash: hash,
      device: proven.device,
      challenge: UsedChallenge(hash: proven.challenge.hash, expiry: proven.challenge.expiry),
      keepsOld: request.keepOld,
      isSameNetwork: { NetworkAddress.isSameSource($0, $1) },
      draft: SessionDraft(
        client: client,
        method: .transfer,
        label: proven.device.label,
        platform: proven.device.platform,
        address: context.peer.address,
        boundKeyThumbprint: boundKey,
        lifetimes: tokens.lifetimes,
        at: now,
        random: random
      )
    )
    let outcome = try await perform(redemption)
    if isTyped, outcome != .unknown { giveBackTry(context) }
    return try answer(outcome, issuing, at: now)
  }

  private func answer(
    _ outcome: RedeemTransfer.Outcome, _ issuing: IssuingTokens, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> IdentityV1.RedeemTransferResponse {
    switch outcome {
    case .moved(let moved):
      return IdentityV1.RedeemTransferResponse(
        tokens: try issuing.tokens(of: moved.session, at: now),
        subject: CommonV1.Subject(moved.session),
        profile: CommonV1.Profile(moved.profile),
        storageNamespace: moved.session.subject.storageNamespace,
        previousSub: moved.previousSubject?.description ?? "",
        sessionsEnded: Int64(moved.sessionsEnded)
      )
    case .unknown: throw .transferNotFound
    case .challengeUsed: throw .challengeInvalid
    case .notAgreed:
      throw RPCError(
        .permissionDenied,
        "keep_old is not what the old device agreed to",
        reason: "TRANSFER_NOT_AGREED"
      )
    case .otherNetwork:
      throw RPCError(
        .permissionDenied,
        "the old device allows only devices of its own network",
        reason: "TRANSFER_OTHER_NETWORK"
      )
    case .sameDevice:
      throw RPCError(
        .failedPrecondition,
        "the device that made the code cannot redeem it",
        reason: "TRANSFER_SAME_DEVICE"
      )
    case .merging: throw .migrationRunning
    }
  }
}
