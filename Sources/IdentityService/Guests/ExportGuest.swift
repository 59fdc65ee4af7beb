import GRPC
import LatchkeyProtos

extension GuestHandlers {
  /// Everything that is known of the caller, guest or account, in parts.
  package func exportGuest(
    _ request: IdentityV1.ExportGuestRequest,
    responses: ResponseWriter<IdentityV1.ExportGuestResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    try await export.write(try context.callerSubject(), to: try context.callerSession(), responses)
  }
}
