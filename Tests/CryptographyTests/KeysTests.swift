import JSON
import LatchkeyModel
import Testing

@testable import Cryptography

@Suite("Keys")
struct KeysTests {
  /// RFC 6979 appendix A.2.5.
  let published = (
    x: hex("60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6"),
    y: hex("7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299")
  )

  @Test("the signatures of RFC 6979 verify, and no other message's")
  func rfc6979() throws {
    let key = try P256PublicKey(x: published.x, y: published.y)
    let sample = hex(
      """
      EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716
      F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8
      """
    )
    let test = hex(
      """
      F1ABB023518351CD71D881567B1EA663ED3EFCF6C5132B354F28D3B0B7D38367
      019F4113742A2B14BD25926B49C649155F267E60D3814B4C0CC84250E46F0083
      """
    )
    #expect(key.verify(signature: sample, message: Array("sample".utf8)))
    #expect(key.verify(signature: test, message: Array("test".utf8)))
    #expect(!key.verify(signature: sample, message: Array("test".utf8)))
    #expect(!key.verify(signature: Array(sample.dropLast()), message: Array("sample".utf8)))
    #expect(!key.verify(signature: sample + [0], message: Array("sample".utf8)))
    #expect(!key.verify(signature: [UInt8](repeating: 0, count: 64), message: Array("sample".utf8)))
    #expect(!key.verify(signature: [UInt8](repeating: 0xFF, count: 64), message: Array("sample".utf8)))
  }

  @Test("the thumbprint of RFC 9449 section 6.1's key is the one that it prints")
  func thumbprint() throws {
    let key = try P256PublicKey(
      jwkX: "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
      y: "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"
    )
    #expect(key.thumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
  }

  @Test("a point off the curve, at infinity or beyond the field does not construct")
  func offCurve() {
    var y = published.y
    y[31] ^= 1
    let zero = [UInt8](repeating: 0, count: 32)
    // The field's prime itself, which is 0 modulo the prime.
    let prime = hex("FFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF")
    let all = [UInt8](repeating: 0xFF, count: 32)
    for (x, y) in [
      (published.x, y), (zero, zero), (prime, published.y), (published.x, prime), (all, all),
      (Array(published.x.dropLast()), published.y), ([0] + published.x, published.y), ([], []),
      // A point of secp256k1, and of no other curve: its generator.
      (
        hex("79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798"),
        hex("483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8")
      ),
    ] {
      #expect(throws: CryptographyError.self) { try P256PublicKey(x: x, y: y) }
      #expect(throws: CryptographyError.self) { try P256Point(x: x, y: y) }
    }
  }

  @Test("a point that is only named has the name of its key")
  func point() throws {
    for _ in 0..<20 {
      let key = try P256PrivateKey().publicKey
      #expect(try P256Point(x: key.x, y: key.y).thumbprint == key.thumbprint)
      var x = key.x
      x[Int.random(in: 0..<32)] ^= UInt8.random(in: 1...255)
      // Half of all numbers are the first coordinate of a point, and hardly one with this second coordinate.
      #expect(throws: CryptographyError.self) { try P256Point(x: x, y: key.y) }
    }
  }

  @Test("a signature of ours verifies; with any bit of it flipped it does not")
  func signature() throws {
    let key = try P256PrivateKey()
    let message = Array("the message".utf8)
    let signature = try key.sign(message)
    #expect(signature.count == 64)
    #expect(key.publicKey.verify(signature: signature, message: message))
    for bit in 0..<(64 * 8) {
      var other = signature
      other[bit / 8] ^= 1 << UInt8(bit % 8)
      #expect(!key.publicKey.verify(signature: other, message: message))
    }
    #expect(try !P256PrivateKey().publicKey.verify(signature: signature, message: message))
  }

  @Test("raw and DER signatures convert both ways, also with leading zeros")
  func derConversion() {
    for leading in 0...32 {
      for high in [UInt8(0x01), 0x80, 0xFF] {
        var half = [UInt8](repeating: 0, count: leading)
        if leading < 32 { half += [high] + [UInt8](repeating: 0x55, count: 31 - leading) }
        let raw = half + half
        let der = ECDSASignature.der(raw: raw)
        #expect(der.flatMap { ECDSASignature.raw(der: $0) } == raw)
        #expect((der?.count ?? 0) <= ECDSASignature.derByteLimit)
      }
    }
    #expect(ECDSASignature.der(raw: []) == nil)
    for broken: [UInt8] in [
      [], [0x30], [0x30, 0], [0x30, 4, 2, 1, 1, 2], [0x30, 3, 2, 1, 1], [0x30, 6, 2, 1, 1, 2, 9, 1],
      [0x30, 8, 2, 1, 1, 2, 1, 1, 0, 0], [0x31, 6, 2, 1, 1, 2, 1, 1], [0x30, 4, 2, 0, 2, 0],
      [0x30, 71, 2, 34] + [UInt8](repeating: 1, count: 34) + [2, 33] + [UInt8](repeating: 1, count: 33),
    ] {
      #expect(ECDSASignature.raw(der: broken) == nil)
    }
  }

  @Test("a private key survives its PEM form, and never prints")
  func pem() throws {
    let key = try P256PrivateKey()
    let pem = try key.pem()
    #expect(String(decoding: pem, as: UTF8.self).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
    let again = try P256PrivateKey(pem: pem)
    #expect(again.publicKey == key.publicKey)
    let message = Array("m".utf8)
    #expect(key.publicKey.verify(signature: try again.sign(message), message: message))
    #expect("\(key)" == "[redacted]")
    #expect(String(reflecting: key) == "[redacted]")
  }

  @Test("a PEM that is no P-256 private key is refused")
  func badPEM() throws {
    let ed25519 = """
      -----BEGIN PRIVATE KEY-----
      MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
      -----END PRIVATE KEY-----

      """
    // Encrypted: must be refused without asking a terminal for the passphrase.
    let encrypted = """
      -----BEGIN ENCRYPTED PRIVATE KEY-----
      MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgAAAAAAAAAAAICCAAw
      DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEAAAAAAAAAAAAAAAAAAAAAAEgZAA
      -----END ENCRYPTED PRIVATE KEY-----

      """
    for text in ["", "no key", ed25519, encrypted, String(repeating: "A", count: 100_000)] {
      #expect(throws: CryptographyError.self) { try P256PrivateKey(pem: Array(text.utf8)) }
    }
    var cut = try P256PrivateKey().pem()
    cut.removeLast(60)
    #expect(throws: CryptographyError.self) { try P256PrivateKey(pem: cut) }
  }

  @Test("a key set survives its JSON form; foreign keys in it are skipped")
  func keySet() throws {
    let keys = try [P256PrivateKey().publicKey, P256PrivateKey().publicKey]
    let set = JSONWebKeySet(keys)
    #expect(try JSONWebKeySet(parsing: set.json.encoded()) == set)
    #expect(set[keys[1].thumbprint] == keys[1])
    #expect(set["other"] == nil)
    var members = try #require(set.json["keys"]?.array)
    members.insert(["kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"], at: 0)
    members.append(["kty": "EC", "crv": "P-384", "kid": "p"])
    #expect(try JSONWebKeySet(parsing: JSONValue.object([.init("keys", .array(members))]).encoded()) == set)
  }

  @Test("a key set that cannot be trusted is refused whole")
  func badKeySet() throws {
    let key = try P256PrivateKey().publicKey
    let good = key.jwk(id: "a")
    for document: JSONValue in [
      ["keys": []], [:], ["keys": "x"], ["keys": [good, good]],
      ["keys": [["kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "b"]]],
      ["keys": [.object(good.members!.filter { $0.name != "kid" })]],
      ["keys": [.object(good.members! + [.init("d", "AAAA")])]],
      ["keys": .array((0...100).map { key.jwk(id: "\($0)") })],
    ] {
      #expect(throws: CryptographyError.self) { try JSONWebKeySet(parsing: document.encoded()) }
    }
  }
}
