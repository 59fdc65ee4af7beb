import Domain
import GRPC
import LatchkeyProtos
import Storage

extension DeviceHandlers {
  /// The devices that the caller is signed in on or that can sign in by themselves, the one seen last first.
  package func listDevices(
    _ request: IdentityV1.ListDevicesRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ListDevicesResponse {
    let caller = try context.callerSession()
    let subject = try context.callerSubject()
    let devices = try await look(ListDevices(of: subject, at: clock.now()))
    let own = try await look(FindSession(caller))
    return IdentityV1.ListDevicesResponse(
      devices: devices.map { device in
        IdentityV1.ListedDevice(
          keyThumbprint: device.keyThumbprint,
          label: device.label ?? "",
          platform: device.platform ?? "",
          osVersion: device.osVersion ?? "",
          appVersion: device.appVersion ?? "",
          firstSeenAt: GoogleProtobuf.Timestamp(device.firstSeenAt),
          lastSeenAt: GoogleProtobuf.Timestamp(device.lastSeenAt),
          sessions: Int64(device.sessions),
          current: device.keyThumbprint == own?.device.keyThumbprint,
          binding: device.binding.map { binding in
            IdentityV1.DeviceBinding(
              boundAt: GoogleProtobuf.Timestamp(binding.boundAt),
              confirmedByLabel: binding.confirmedBy.label?.description ?? "",
              confirmedByKey: binding.confirmedBy.keyThumbprint ?? "",
              scope: binding.scope.description
            )
          }
        )
      })
  }
}
