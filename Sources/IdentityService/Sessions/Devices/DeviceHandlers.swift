import Domain
import GRPC
import LatchkeyProtos

/// Answers `latchkey.identity.v1.DeviceService`, one file for each method.
package struct DeviceHandlers: IdentityV1.DeviceService, Deciding {
  let domain: IdentityDomain
  let challenges: ChallengeBook
  let tokens: TokenIssuer
  let callers: CallerChecks
  let surroundings: Surroundings

  /// 32 bytes as base64url.
  static func keyThumbprint(_ text: String) throws(RPCError) -> String {
    guard text.utf8.count == 43, text.utf8.allSatisfy({ $0.isBase64URL }) else {
      throw .invalid("key_thumbprint", "must be a key_thumbprint of ListDevices")
    }
    return text
  }
}

extension UInt8 {
  fileprivate var isBase64URL: Bool {
    switch self {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}
