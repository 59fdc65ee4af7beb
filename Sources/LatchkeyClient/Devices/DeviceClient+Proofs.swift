import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  func challenge(for key: P256PublicKey) async throws(ClientError) -> IdentityV1.GetChallengeResponse {
    let guests = IdentityV1.GuestServiceClient(channel: identity)
    let ask = IdentityV1.GetChallengeRequest(clientID: configuration.clientID, deviceKey: CommonV1.EcPublicJwk(key))
    return try await open { options throws(RPCError) in
      try await guests.getChallenge(ask, options: options)
    }
  }

  /// A key's signature over a context and its parts, as the .proto files say.
  func signature(
    of key: P256PrivateKey, _ context: String, _ parts: [String]
  ) throws(ClientError) -> [UInt8] {
    do throws(CryptographyError) {
      return try key.sign(DeviceProof.message(context, parts))
    } catch {
      throw .deviceKey("\(error)")
    }
  }
}

extension IdentityV1.Device {
  init(_ device: DeviceDescription, id: String, key: P256PublicKey) {
    self.init(
      deviceID: id,
      publicKey: CommonV1.EcPublicJwk(key),
      label: device.label,
      platform: device.platform,
      osVersion: device.osVersion,
      appVersion: device.appVersion,
      reinstalled: device.isReinstalled
    )
  }
}
