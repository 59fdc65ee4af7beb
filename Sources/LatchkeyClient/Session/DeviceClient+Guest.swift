import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Makes this device's guest, or finds it again: what an app does at its first start, without a form.
  ///
  /// Idempotent, also across lost answers and crashes: the key is kept before the first call, and one key has one
  /// guest. A secret store that cannot be read ends the attempt; it never makes a second key.
  public func startAsGuest(_ device: DeviceDescription) async throws(ClientError) -> GuestStart {
    var record = try deviceRecordOrNew()
    let key = try privateKey(of: record)
    let jwk = CommonV1.EcPublicJwk(
      kty: "EC",
      crv: "P-256",
      x: Base64URL.encode(key.publicKey.x),
      y: Base64URL.encode(key.publicKey.y)
    )
    let guests = IdentityV1.GuestServiceClient(channel: identity)

    let ask = IdentityV1.GetChallengeRequest(clientID: configuration.clientID, deviceKey: jwk)
    let challenge = try await open { options throws(RPCError) in
      try await guests.getChallenge(ask, options: options)
    }
    let request = IdentityV1.IssueGuestRequest(
      clientID: configuration.clientID,
      device: IdentityV1.Device(
        deviceID: record.deviceID,
        publicKey: jwk,
        label: device.label,
        platform: device.platform,
        osVersion: device.osVersion,
        appVersion: device.appVersion,
        reinstalled: device.isReinstalled
      ),
      challenge: challenge.challenge,
      proof: try proof(of: key, record.deviceID, challenge.challenge),
      powSolution: try ProofOfWork.solution(of: challenge.challenge, leadingZeroBits: challenge.powBits),
      locale: device.locale
    )
    let answer = try await open { options throws(RPCError) in
      try await guests.issueGuest(request, options: options)
    }

    let tokens = try require(answer.tokens, "IssueGuestResponse.tokens")
    let subject = try require(answer.subject, "IssueGuestResponse.subject")
    let session = stored(
      tokens,
      sub: subject.sub,
      isGuest: subject.isGuest,
      namespace: answer.storageNamespace
    )
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

  /// The device's record. A new one is made only when there certainly is none.
  private func deviceRecordOrNew() throws(ClientError) -> DeviceRecord {
    if let record = try deviceRecord() { return record }
    let record: DeviceRecord
    do throws(CryptographyError) {
      let key = try P256PrivateKey()
      record = DeviceRecord(
        deviceID: Base64URL.encode(SecureRandom.bytes(16)),
        privateKey: String(decoding: try key.pem(), as: UTF8.self),
        registration: .pending
      )
    } catch {
      throw .deviceKey("\(error)")
    }
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

  private func privateKey(of record: DeviceRecord) throws(ClientError) -> P256PrivateKey {
    do throws(CryptographyError) {
      return try P256PrivateKey(pem: Array(record.privateKey.utf8))
    } catch {
      throw .unreadableSecret(name: DeviceRecord.name)
    }
  }

  /// The device key's signature over what guest_service.proto says.
  private func proof(
    of key: P256PrivateKey,
    _ deviceID: String,
    _ challenge: String
  ) throws(ClientError) -> [UInt8] {
    let parts = ["latchkey-device-proof-v1", configuration.clientID, deviceID, challenge]
    let message = Array(parts.map { Array($0.utf8) }.joined(separator: [0]))
    do throws(CryptographyError) {
      return try key.sign(message)
    } catch {
      throw .deviceKey("\(error)")
    }
  }
}
