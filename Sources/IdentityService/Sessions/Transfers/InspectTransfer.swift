import Callers
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

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
    try countTry(context)
    let now = clock.now()
    let found = try await stored { () throws(StorageError) in try await transfers.offer(hash, at: now) }
    guard let found else { throw .transferNotFound }
    let identities = try await stored { () throws(StorageError) in
      try await links.identities(of: found.subject)
    }
    return IdentityV1.InspectTransferResponse(
      isGuest: found.isGuest,
      accountMask: identities.first?.mask ?? "",
      deviceLabel: found.from.device.label?.description ?? "",
      platform: found.from.device.platform?.description ?? "",
      createdAt: GoogleProtobuf.Timestamp(found.offer.createdAt),
      expiresIn: (found.offer.expiry - now).components.seconds,
      oldDevice: IdentityV1.OldDevice(found.offer.consent),
      sameNetwork: NetworkAddress.isSameSource(found.offer.address, context.peer.address)
    )
  }
}
