import Domain
import GRPC
import LatchkeyProtos

extension DeviceHandlers {
  /// Ends the caller's sessions on a device, and what opens the account there. Those of others on the same device stay.
  package func removeDevice(
    _ request: IdentityV1.RemoveDeviceRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RemoveDeviceResponse {
    let key = try Self.keyThumbprint(request.keyThumbprint)
    let caller = try context.callerSession()
    let now = clock.now()
    switch try await perform(RemoveDevice(key, by: caller, at: now)) {
    case .removed(let ended): return IdentityV1.RemoveDeviceResponse(sessionsEnded: Int64(ended))
    case .unconfirmed: throw .sessionUnconfirmed
    case .callerEnded: throw .sessionRevoked
    }
  }
}
