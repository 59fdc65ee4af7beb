import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// The devices that whoever uses this one is signed in on or that can sign in by themselves, the one seen last first.
  public func devices() async throws(ClientError) -> [ListedDevice] {
    let service = IdentityV1.DeviceServiceClient(channel: identity)
    let answer = try await authorized { options throws(RPCError) in
      try await service.listDevices(IdentityV1.ListDevicesRequest(), options: options)
    }
    return answer.devices.map { device in
      ListedDevice(
        keyThumbprint: device.keyThumbprint,
        label: device.label,
        platform: device.platform,
        osVersion: device.osVersion,
        appVersion: device.appVersion,
        firstSeenAt: device.firstSeenAt?.millisecondsSinceEpoch,
        lastSeenAt: device.lastSeenAt?.millisecondsSinceEpoch,
        sessions: device.sessions,
        isCurrent: device.current,
        binding: device.binding.map { binding in
          DeviceBinding(
            boundAt: binding.boundAt?.millisecondsSinceEpoch,
            confirmedByLabel: binding.confirmedByLabel,
            confirmedByKey: binding.confirmedByKey,
            scope: binding.scope
          )
        }
      )
    }
  }

  public func renameDevice(_ keyThumbprint: String, to label: String) async throws(ClientError) {
    let service = IdentityV1.DeviceServiceClient(channel: identity)
    let request = IdentityV1.RenameDeviceRequest(keyThumbprint: keyThumbprint, label: label)
    _ = try await authorized { options throws(RPCError) in
      try await service.renameDevice(request, options: options)
    }
  }

  /// Ends one's sessions on a device, and lets nothing on it open the account any more. Returns how many sessions ended.
  public func removeDevice(_ keyThumbprint: String) async throws(ClientError) -> Int64 {
    let service = IdentityV1.DeviceServiceClient(channel: identity)
    let request = IdentityV1.RemoveDeviceRequest(keyThumbprint: keyThumbprint)
    return try await authorized { options throws(RPCError) in
      try await service.removeDevice(request, options: options)
    }.sessionsEnded
  }

  /// Puts a new key in the place of this device's key. Guest and sessions go on under it.
  ///
  /// The new key is kept before the service hears of it, so that neither a lost answer nor a crash loses the guest:
  /// calling again, or starting as a guest, finds out how far it came. Returns the new key's thumbprint.
  public func rotateDeviceKey(_ device: DeviceDescription) async throws(ClientError) -> String {
    if let adopted = try await finishKeyRotation(device) { return adopted }
    guard let old = try deviceRecord() else { throw .signedOut }
    try keep(try DeviceRecord(newKeyFor: old.deviceID), as: DeviceRecord.nextName)
    guard let adopted = try await finishKeyRotation(device) else { throw .incompleteAnswer("the next key") }
    return adopted
  }

  /// Takes a rotation to its end that was begun. Nil when none was.
  @discardableResult
  func finishKeyRotation(_ device: DeviceDescription) async throws(ClientError) -> String? {
    guard var next = try deviceRecord(named: DeviceRecord.nextName), let old = try deviceRecord() else { return nil }
    let newKey = try privateKey(of: next)
    let thumbprint = newKey.publicKey.thumbprint
    if old.privateKey != next.privateKey {
      do throws(ClientError) {
        try await rotate(from: old, to: next, newKey, device)
      } catch {
        // The session runs under another key than the old one: the answer was lost, the change was not.
        guard case .call(let failure) = error, failure.reason == "OTHER_DEVICE" else { throw error }
      }
      next.registration = .registered
      try keep(next)
    }
    try removeSecret(DeviceRecord.nextName)
    return thumbprint
  }

  private func rotate(
    from old: DeviceRecord, to next: DeviceRecord, _ newKey: P256PrivateKey, _ device: DeviceDescription
  ) async throws(ClientError) {
    let oldKey = try privateKey(of: old)
    let proofs = try await replacementProofs(of: oldKey, by: newKey, next.deviceID)
    let request = IdentityV1.RotateDeviceKeyRequest(
      clientID: configuration.clientID,
      oldKey: CommonV1.EcPublicJwk(oldKey.publicKey),
      device: IdentityV1.Device(device, id: next.deviceID, key: newKey.publicKey),
      challenge: proofs.challenge,
      powSolution: proofs.solution,
      oldProof: proofs.old,
      newProof: proofs.new
    )
    let service = IdentityV1.DeviceServiceClient(channel: identity)
    _ = try await authorized { options throws(RPCError) in
      try await service.rotateDeviceKey(request, options: options)
    }
  }

  /// What both keys sign of each other when one takes the other's place.
  func replacementProofs(
    of oldKey: P256PrivateKey, by newKey: P256PrivateKey, _ deviceID: String
  ) async throws(ClientError) -> (challenge: String, solution: [UInt8], old: [UInt8], new: [UInt8]) {
    let challenge = try await challenge(for: oldKey.publicKey)
    let parts = [configuration.clientID, deviceID, challenge.challenge]
    return (
      challenge.challenge,
      try ProofOfWork.solution(of: challenge.challenge, leadingZeroBits: challenge.powBits),
      try signature(of: oldKey, DeviceProof.rotationContext, parts + [newKey.publicKey.thumbprint]),
      try signature(of: newKey, DeviceProof.rotatedContext, parts + [oldKey.publicKey.thumbprint])
    )
  }
}
