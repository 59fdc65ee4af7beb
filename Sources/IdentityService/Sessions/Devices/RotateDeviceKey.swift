import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceHandlers {
  /// The calling device goes on under a new key.
  package func rotateDeviceKey(
    _ request: IdentityV1.RotateDeviceKeyRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RotateDeviceKeyResponse {
    let caller = try context.callerSession()
    let replacement = try KeyReplacement(
      client: try RequestFields.clientID(request.clientID), oldKey: request.oldKey, device: request.device,
      challenge: request.challenge, solution: request.powSolution, oldProof: request.oldProof,
      newProof: request.newProof, challenges, address: context.peer.address, at: clock.now())
    switch try await perform(RotateKey(replacement, by: caller)) {
    case .rotated(let moved):
      return IdentityV1.RotateDeviceKeyResponse(
        keyThumbprint: replacement.device.keyThumbprint, sessionsMoved: Int64(moved))
    case .challengeUsed: throw .challengeInvalid
    case .otherDevice:
      throw RPCError(
        .permissionDenied, "old_key is not the key of the device that calls", reason: "OTHER_DEVICE")
    case .keyInUse: throw .keyInUse
    case .cloned: throw .deviceCloned
    }
  }
}
