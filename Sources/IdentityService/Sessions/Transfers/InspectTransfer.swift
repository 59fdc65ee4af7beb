import Callers
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

extension TransferHandlers {
  /// What the new device shows before its owner agrees.
  package func inspectTransfer(
    _ request: IdentityV1.InspectTransferRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.InspectTransferResponse {
    let hash =
      switch request.secret {
      case .code(let code): try hash(code: code)
      case .qrPayload(let payload): try hash(payload: payload)
      case nil: throw .invalid("secret", "is missing: send code or qr_payload")
      }
    let isTyped = if case .code? = request.secret { true } else { false }
    if isTyped { try countTry(context) }
    let now = clock.now()
    guard let found = try await look(FindTransfer(hash, at: now)) else { throw .transferNotFound }
    if isTyped { giveBackTry(context) }
    return IdentityV1.InspectTransferResponse(
      isGuest: found.isGuest,
      accountMask: try await look(FindMask(of: found.subject)),
      deviceLabel: found.from.device.label?.description ?? "",
      platform: found.from.device.platform?.description ?? "",
      createdAt: GoogleProtobuf.Timestamp(found.offer.createdAt),
      expiresIn: (found.offer.expiry - now).components.seconds,
      oldDevice: IdentityV1.OldDevice(found.offer.consent),
      sameNetwork: NetworkAddress.isSameSource(found.offer.address, context.peer.address)
    )
  }
}
