import Domain
import GRPC
import LatchkeyProtos

extension DeviceHandlers {
  /// Gives one of the caller's devices a name.
  package func renameDevice(
    _ request: IdentityV1.RenameDeviceRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RenameDeviceResponse {
    let key = try Self.keyThumbprint(request.keyThumbprint)
    guard let label = try RequestFields.displayText(request.label, "label") else {
      throw .invalid("label", "is missing")
    }
    let rename = RenameDevice(key, of: try context.callerSubject(), to: label, at: clock.now())
    guard try await perform(rename) else {
      throw RPCError(.notFound, "the caller has no session on such a device", reason: "DEVICE_NOT_FOUND")
    }
    return IdentityV1.RenameDeviceResponse()
  }
}
