import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Makes this device's guest, or finds it again: what an app does at its first start, without a form.
  ///
  /// Idempotent, also across lost answers and crashes: the key is kept before the first call, and one key has one
  /// guest. A secret store that cannot be read ends the attempt; it never makes a second key.
  ///
  /// Errors: a call's with the reason `DEVICE_CLONED` when another device holds a copy of this one's key; the way out is
  /// ``resolveClone(_:_:)``.
  public func startAsGuest(_ device: DeviceDescription) async throws(ClientError) -> GuestStart {
    let before = try storedSession()
    try await finishCloneResolution(device)
    try await finishKeyRotation(device)
    var record = try deviceRecordOrNew()
    let answer = try await issueGuest(record, device)
    let session = try guestSession(answer)
    // A start that another start overtook has the same guest; an account that signed in meanwhile stays.
    if let now = try storedSession(), now.sid != before?.sid, !now.isGuest { throw .overtaken }
    try keep(session)
    if record.registration == .pending {
      record.registration = .registered
      try keep(record)
    }
    return GuestStart(
      session: session.session,
      created: answer.created,
      lastLogin: answer.lastLoginHint.map { hint in
        LoginHint(
          method: hint.method,
          accountMask: hint.accountMask,
          at: hint.at?.millisecondsSinceEpoch
        )
      },
      gatePolicyVersion: answer.gatePolicyVersion
    )
  }

  /// A live access token of the guest that an earlier sign-in left behind. That sign-in ended the guest's session, so
  /// the device key asks for another one.
  ///
  /// Errors: ``ClientError/signedOut`` when no guest was left behind, or the key's guest is no longer that one.
  func leftBehindGuestToken() async throws(ClientError) -> String {
    guard let left = try storedSession(.guestLeftBehind), let record = try deviceRecord() else { throw .signedOut }
    let fresh = try guestSession(try await issueGuest(record, DeviceDescription(label: "")))
    guard fresh.isGuest, fresh.sub == left.sub else { throw .signedOut }
    try keep(fresh, .guestLeftBehind)
    return fresh.accessToken
  }

  private func guestSession(_ answer: IdentityV1.IssueGuestResponse) throws(ClientError) -> StoredSession {
    let subject = try require(answer.subject, "IssueGuestResponse.subject")
    return stored(
      try require(answer.tokens, "IssueGuestResponse.tokens"),
      sub: subject.sub,
      isGuest: subject.isGuest,
      namespace: answer.storageNamespace
    )
  }

  /// Proves the device key and gets a session of its guest.
  private func issueGuest(
    _ record: DeviceRecord,
    _ device: DeviceDescription
  ) async throws(ClientError) -> IdentityV1.IssueGuestResponse {
    let key = try privateKey(of: record)
    let guests = IdentityV1.GuestServiceClient(channel: identity)
    let challenge = try await challenge(for: key.publicKey)
    let solution = try ProofOfWork.solution(of: challenge.challenge, leadingZeroBits: challenge.powBits)
    let count = try ProofCount.next(in: secrets)
    let parts = [configuration.clientID, record.deviceID, challenge.challenge, "\(count)"]
    let request = IdentityV1.IssueGuestRequest(
      clientID: configuration.clientID,
      device: IdentityV1.Device(device, id: record.deviceID, key: key.publicKey),
      challenge: challenge.challenge,
      proof: try signature(of: key, DeviceProof.issueGuestContext, parts),
      powSolution: solution,
      locale: device.locale,
      counter: count
    )
    return try await open { options throws(RPCError) in
      try await guests.issueGuest(request, options: options)
    }
  }

  /// The key that tokens are to be bound to; nil when they are not, or when this device has no key yet.
  func bindingKey() throws(ClientError) -> CommonV1.EcPublicJwk? {
    guard configuration.bindsTokens, let record = try deviceRecord() else { return nil }
    return CommonV1.EcPublicJwk(try privateKey(of: record).publicKey)
  }

  /// The device key's signature over a fresh challenge, for one purpose.
  func deviceProof(for purpose: DeviceProof.UnlockPurpose) async throws(ClientError) -> IdentityV1.KeyProof {
    guard let record = try deviceRecord() else { throw .signedOut }
    let key = try privateKey(of: record)
    let challenge = try await challenge(for: key.publicKey)
    return IdentityV1.KeyProof(
      publicKey: CommonV1.EcPublicJwk(key.publicKey),
      challenge: challenge.challenge,
      signature: try signature(of: key, purpose.rawValue, [configuration.clientID, challenge.challenge]),
      powSolution: try ProofOfWork.solution(of: challenge.challenge, leadingZeroBits: challenge.powBits)
    )
  }

  /// The device's record. A new one is made only when there certainly is none.
  func deviceRecordOrNew() throws(ClientError) -> DeviceRecord {
    if let record = try deviceRecord() { return record }
    let record = try DeviceRecord(newKeyFor: Base64URL.encode(SecureRandom.bytes(16)))
    let added: Bool
    do throws(SecretStoreError) {
      added = try secrets.add(record.encoded(), as: DeviceRecord.name)
    } catch {
      throw .secretStore(error)
    }
    if added { return record }
    // Another process of this app was faster: its key is the device's.
    return try require(try deviceRecord(), "the device record that was just there")
  }

  func privateKey(of record: DeviceRecord) throws(ClientError) -> P256PrivateKey {
    do throws(CryptographyError) {
      return try P256PrivateKey(pem: Array(record.privateKey.utf8))
    } catch {
      throw .unreadableSecret(name: DeviceRecord.name)
    }
  }

  /// The device key's signature: 64 bytes, r then s.
  func signature(over message: [UInt8]) throws(ClientError) -> [UInt8] {
    guard let record = try deviceRecord() else { throw .deviceKey("this device has made no key") }
    let key = try privateKey(of: record)
    do throws(CryptographyError) {
      return try key.sign(message)
    } catch {
      throw .deviceKey("\(error)")
    }
  }

  /// Everything that the service knows of whoever uses this device, as lines of JSON. The last line says that all was
  /// there; without it the export is not complete.
  ///
  /// An export that breaks off after its first line fails: what was handed over cannot be taken back, so it is not begun
  /// anew in the same call.
  public func exportData(_ take: @Sendable (String) async -> Void) async throws(ClientError) {
    let guests = IdentityV1.GuestServiceClient(channel: identity)
    var hasBegun = false
    let isComplete = try await authorized(timeout: Limits.uploadTimeout, unless: { hasBegun }) {
      options throws(RPCError) in
      try await guests.exportGuest(IdentityV1.ExportGuestRequest(), options: options) { responses throws(RPCError) in
        var isComplete = false
        for try await response in responses {
          guard let part = response.part else { continue }
          if case .complete = part { isComplete = true }
          hasBegun = true
          for line in part.lines { await take(line) }
        }
        return isComplete
      }
    }
    guard isComplete else { throw .incompleteAnswer("ExportGuestResponse.complete") }
  }

  /// Deletes this device's guest for good, with its records. The device key stays, and gets another guest when it asks.
  ///
  /// Returns false while the records could not be reached; the service deletes them as soon as they can.
  public func deleteGuest() async throws(ClientError) -> Bool {
    guard let session = try storedSession(), session.isGuest else { throw .signedOut }
    let guests = IdentityV1.GuestServiceClient(channel: identity)
    let answer = try await authorized { options throws(RPCError) in
      try await guests.deleteGuest(IdentityV1.DeleteGuestRequest(sub: session.sub), options: options)
    }
    try keep(nil, insteadOf: session)
    return answer.recordsDeleted
  }
}
