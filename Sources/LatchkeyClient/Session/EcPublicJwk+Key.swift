import Cryptography
import LatchkeyModel
import LatchkeyProtos

extension CommonV1.EcPublicJwk {
  init(_ key: P256PublicKey) {
    self.init(kty: "EC", crv: "P-256", x: Base64URL.encode(key.x), y: Base64URL.encode(key.y))
  }
}
