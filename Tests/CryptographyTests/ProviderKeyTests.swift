import JSON
import LatchkeyModel
import Testing

@testable import Cryptography

/// The vectors were made by PyPI's cryptography.
@Suite("Keys of OpenID providers")
struct ProviderKeyTests {
  private static let modulus =
    "t8BYdEK66ow5J0lsA4JkJJ7kL0bn8-iUz4z9NIjZIs0eD8HNmhwBQfdxAhLwlJm472TL_Gg7ylae6bU6PaPkiqNO-5Wsw4DJ"
    + "KHbmI-QtRhWfTRgQ_8J2WQBOTYoaL0n71naCxhNFeU5xEwchA4szT1U_RK2fivdsUjFxYjdIwB9d0uDKgfaCUCWiSFetLJ6r"
    + "7-R2G2y9Kth9e_SywxFLI_gJ8FueRtxXFj38e4zCGKSFgBmgpNQT5oKp7vKK8Q2d_GZuSHnuqMw4onAQFc0Jr0qSjiRFgURp"
    + "904orywekI112mlwZDv-Oo7bbodJ0lU_aZOHBhPxgJqUfOfkGQdf2Q"
  private static let signature =
    "MBrW3teUpO4lChEPy7yTroNuQvSX1kxH1xCbkuDxgP1bEnv29whavafEAa8HQh18dqTeeXW0wnCOMpIZ1p989EcmsxLpiyu0"
    + "FXVcXnBpCpF9Tt93l2cbkYIXpycE_sAksc8EbKni7E-HmtKidQvSZ9QUvqLOvlFI37wPC1qGlGys0dyL1jgFOve00z9YVM8Z"
    + "E0OAaBsIsKoOrWyC_YmNh32Uv1Gux-tP1bqCkFtU_yMGpQqAgrL3r89LDX6ucwHqYCGJp-hP11-6ZtLq4vo1tObyuJ3gQb1e"
    + "xJN7CbQt-gKFfZw1bal83AU82iyW9WoBJV9ycD04CMzNPAKAQKP0ag"
  private static let weakModulus =
    "zxoDayFpfwI6Sbu1JyEW6Dcdju7WE8zn3-5rZyRV1hSpWDrmdYAYB68P4JbEfQOyMC80wwrznTqRF4OGjSsalo3KNmVTLdgJ"
    + "rIt2g9NzF6EYBOemMmrv3b93x766S24P4Yst5EDYgVst7abwl3DfZjYtHUJcnItim9u6jffDVo0"

  private static func jwk(n: String = modulus, e: String = "AQAB", _ more: [JSONValue.Member] = []) -> JSONValue {
    .object([.init("kty", "RSA"), .init("n", .string(n)), .init("e", .string(e))] + more)
  }

  private func set(_ keys: [JSONValue]) throws -> ProviderKeySet {
    try ProviderKeySet(parsing: JSONValue.object([.init("keys", .array(keys))]).encoded())
  }

  @Test("R4: an RSA signature that another library made verifies, and no byte of it may differ")
  func verifies() throws {
    let key = try RSAPublicKey(jwk: Self.jwk())
    let signature = try #require(Base64URL.decode(Self.signature))
    #expect(key.verify(signature: signature, message: Array("latchkey".utf8)))
    #expect(!key.verify(signature: signature, message: Array("latchkez".utf8)))
    for index in stride(from: 0, to: signature.count, by: 17) {
      var changed = signature
      changed[index] ^= 1
      #expect(!key.verify(signature: changed, message: Array("latchkey".utf8)))
    }
    for odd in [[], Array(signature.dropLast()), signature + [0]] {
      #expect(!key.verify(signature: odd, message: Array("latchkey".utf8)))
    }
  }

  @Test("R5: a weak, private or malformed RSA key is none")
  func refused() {
    for jwk in [
      Self.jwk(n: Self.weakModulus), Self.jwk(n: ""), Self.jwk(n: "***"), Self.jwk(e: ""), Self.jwk(e: "AQ"),
      Self.jwk(e: "Ag"), Self.jwk([.init("d", "AQAB")]), Self.jwk(n: Self.modulus + Self.modulus + Self.modulus),
    ] {
      #expect(throws: CryptographyError.self) { try RSAPublicKey(jwk: jwk) }
    }
  }

  @Test("R6: a key is found by its name and algorithm, odd ones beside it do no harm, and a set without any is refused")
  func sets() throws {
    let ours = try P256PrivateKey().publicKey
    let keys = try set([
      Self.jwk([.init("kid", "r")]), ours.jwk(id: "e"), Self.jwk([.init("kid", "enc"), .init("use", "enc")]),
      Self.jwk([.init("kid", "ps"), .init("alg", "PS256")]), ["kty": "oct", "kid": "o", "k": "AA"], "nonsense",
    ])
    #expect(keys.key("r", .rs256) != nil && keys.key("e", .es256) != nil)
    #expect(keys.key("r", .es256) == nil && keys.key("e", .rs256) == nil)
    for id in ["enc", "ps", "o", "", "x"] { #expect(keys.key(id, .rs256) == nil) }
    #expect(keys.key(nil, .rs256) != nil)
    let two = try set([Self.jwk([.init("kid", "1")]), Self.jwk([.init("kid", "2")])])
    #expect(two.key(nil, .rs256) == nil)
    #expect(throws: CryptographyError.self) { try set([["kty": "oct"]]) }
    #expect(throws: CryptographyError.self) { try ProviderKeySet(parsing: Array("[]".utf8)) }
  }
}
