import GRPC
import LatchkeyProtos
import Storage

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
    let subject = try context.callerSubject()
    let now = clock.now()
    let isRenamed = try await stored { () throws(StorageError) in
      try await devices.rename(key, of: subject, to: label, at: now)
    }
    guard isRenamed else {
      throw RPCError(.notFound, "the caller has no session on such a device", reason: "DEVICE_NOT_FOUND")
    }
    return IdentityV1.RenameDeviceResponse()
  }
}
