import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension TransferHandlers {
  /// Takes an offer back, from any session of the same guest or account.
  package func cancelTransfer(
    _ request: IdentityV1.CancelTransferRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.CancelTransferResponse {
    guard let id = TransferID(request.transferID) else {
      throw .invalid("transfer_id", "must be the transfer_id of CreateTransfer")
    }
    try cell.requireSame(id.cell)
    let subject = try context.callerSubject()
    let isCancelled = try await perform(CancelTransfer(id, of: subject, at: clock.now()))
    return IdentityV1.CancelTransferResponse(cancelled: isCancelled)
  }
}
