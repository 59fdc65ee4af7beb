import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// A phone with its key, as the identity service sees it.
struct TestDevice: Sendable {
  let key: P256PrivateKey
  var deviceID = "6f9619ff-8b86-4011-b42d-00cf4fc964ff"
  var clientID = "app.test"

  init() throws {
    key = try P256PrivateKey()
  }

  var jwk: CommonV1.EcPublicJwk {
    CommonV1.EcPublicJwk(
      kty: "EC",
      crv: "P-256",
      x: Base64URL.encode(key.publicKey.x),
      y: Base64URL.encode(key.publicKey.y)
    )
  }

  /// The request that answers a challenge.
  func issueRequest(
    _ challenge: String, reinstalled: Bool = false, counter: Int64 = 0
  ) throws -> IdentityV1.IssueGuestRequest {
    let parts = [clientID, deviceID, challenge] + (counter == 0 ? [] : ["\(counter)"])
    return IdentityV1.IssueGuestRequest(
      clientID: clientID,
      device: IdentityV1.Device(
        deviceID: deviceID,
        publicKey: jwk,
        label: "Ada's phone",
        platform: "iOS",
        osVersion: "26.1",
        appVersion: "1.0.0",
        reinstalled: reinstalled
      ),
      challenge: challenge,
      proof: try sign("latchkey-device-proof-v1", parts),
      locale: "en",
      counter: counter
    )
  }

  /// A signature over a context and its parts, each after a zero byte.
  func sign(_ context: String, _ parts: [String]) throws -> [UInt8] {
    var message = Array(context.utf8)
    for part in parts {
      message.append(0)
      message.append(contentsOf: part.utf8)
    }
    return try key.sign(message)
  }
}
