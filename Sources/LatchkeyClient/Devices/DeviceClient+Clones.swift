import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// The way out when the service says that two devices hold this one's key (`DEVICE_CLONED`): this device gets a new key,
  /// and goes on as the guest that the choice gives it. Of several devices that choose, the first choice holds.
  ///
  /// Whoever is signed in to an account on this device signs in again. The new key is kept before the service hears of
  /// it: after a lost answer or a crash, calling again or starting as a guest finds out how far it came.
  ///
  /// Errors: a call's with the reason `DEVICE_NOT_CLONED` when another device was faster, or nobody else is known to hold
  /// the key; `GUEST_GONE` when there is no guest to be kept any more.
  public func resolveClone(_ choice: CloneChoice, _ device: DeviceDescription) async throws(ClientError) -> GuestStart {
    var made = try await finishCloneResolution(device)
    if made == nil {
      guard let old = try deviceRecord() else { throw .signedOut }
      let begun = CloneResolution(choice: choice, next: try DeviceRecord(newKeyFor: old.deviceID))
      do throws(SecretStoreError) {
        try secrets.save(begun.encoded(), as: CloneResolution.name)
      } catch {
        throw .secretStore(error)
      }
      made = try await finishCloneResolution(device, isNew: true)
    }
    let start = try await startAsGuest(device)
    // The guest of a split was made with its key, just before.
    return GuestStart(
      session: start.session, created: start.created || made == .split, lastLogin: start.lastLogin,
      gatePolicyVersion: start.gatePolicyVersion)
  }

  /// Takes a choice to its end that was begun. Nil when none was, or another device's choice came before it.
  ///
  /// - Parameter isNew: it was begun just now: that another device was faster is an error.
  @discardableResult
  func finishCloneResolution(
    _ device: DeviceDescription, isNew: Bool = false
  ) async throws(ClientError) -> CloneChoice? {
    guard var begun = try cloneResolution() else { return nil }
    guard let old = try deviceRecord() else { throw .signedOut }
    if old.privateKey != begun.next.privateKey {
      do throws(ClientError) {
        try await resolve(begun, old, device)
      } catch {
        guard case .call(let failure) = error else { throw error }
        switch failure.reason {
        // The new key is known to nobody but this device: the answer was lost, the change was not.
        case "KEY_IN_USE": break
        case "DEVICE_NOT_CLONED", "GUEST_GONE":
          try removeSecret(CloneResolution.name)
          if !isNew, failure.reason == "DEVICE_NOT_CLONED" { return nil }
          throw error
        default: throw error
        }
      }
      // A key that was to take the old one's place would take the new one's.
      try removeSecret(DeviceRecord.nextName)
      begun.next.registration = .registered
      try keep(begun.next)
    }
    try removeSecret(CloneResolution.name)
    return begun.choice
  }

  private func cloneResolution() throws(ClientError) -> CloneResolution? {
    let bytes: [UInt8]?
    do throws(SecretStoreError) {
      bytes = try secrets.secret(named: CloneResolution.name)
    } catch {
      throw .secretStore(error)
    }
    guard let bytes else { return nil }
    guard let begun = CloneResolution(bytes) else { throw .unreadableSecret(name: CloneResolution.name) }
    return begun
  }

  private func resolve(
    _ begun: CloneResolution, _ old: DeviceRecord, _ device: DeviceDescription
  ) async throws(ClientError) {
    let (oldKey, newKey) = (try privateKey(of: old), try privateKey(of: begun.next))
    let proofs = try await replacementProofs(of: oldKey, by: newKey, begun.next.deviceID)
    let request = IdentityV1.ResolveCloneRequest(
      clientID: configuration.clientID,
      choice: begun.choice.proto,
      oldKey: CommonV1.EcPublicJwk(oldKey.publicKey),
      device: IdentityV1.Device(device, id: begun.next.deviceID, key: newKey.publicKey),
      challenge: proofs.challenge,
      powSolution: proofs.solution,
      oldProof: proofs.old,
      newProof: proofs.new
    )
    let service = IdentityV1.DeviceServiceClient(channel: identity)
    // Its tokens are not kept: the start that follows begins a session that is bound to the new key.
    _ = try await open { options throws(RPCError) in
      try await service.resolveClone(request, options: options)
    }
  }
}
