import LatchkeyModel
import Testing

@testable import Cryptography

@Suite("Primitives")
struct PrimitivesTests {
  @Test("SHA-256 agrees with FIPS 180-4")
  func sha256() {
    #expect(SHA256Hash.hash([]) == hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"))
    #expect(
      SHA256Hash.hash(Array("abc".utf8))
        == hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    )
    #expect(
      SHA256Hash.hash([UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000))
        == hex("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    )
  }

  @Test("SHA-256 of pieces is that of the whole", arguments: [0, 1, 63, 64, 65, 1000])
  func sha256OfPieces(length: Int) {
    let message = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
    let digest = SHA256Digest()
    for piece in stride(from: 0, to: length, by: 7) { digest.update(Array(message[piece..<min(piece + 7, length)])) }
    digest.update([])
    #expect(hex(digest.hexadecimal()) == SHA256Hash.hash(message))
  }

  @Test("HMAC-SHA-256 agrees with RFC 4231")
  func hmac() {
    #expect(
      HMACSHA256.authenticate(Array("Hi There".utf8), key: [UInt8](repeating: 0x0B, count: 20))
        == hex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
    )
    #expect(
      HMACSHA256.authenticate(Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8))
        == hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    )
    let message = "Test Using Larger Than Block-Size Key - Hash Key First"
    #expect(
      HMACSHA256.authenticate(Array(message.utf8), key: [UInt8](repeating: 0xAA, count: 131))
        == hex("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
    )
  }

  @Test("R3: comparison finds a difference at every place, and in length")
  func constantTime() {
    let secret = SecureRandom.bytes(32)
    #expect(ConstantTime.equals(secret, secret))
    #expect(!ConstantTime.equals(secret, Array(secret.dropLast())))
    for index in secret.indices {
      var other = secret
      other[index] ^= 1
      #expect(!ConstantTime.equals(secret, other))
    }
    #expect(ConstantTime.equals("", ""))
    #expect(!ConstantTime.equals("a", "b"))
  }

  @Test("R1: a hundred thousand secrets of 128 bits are all different")
  func random() {
    var seen: Set<[UInt8]> = []
    for _ in 0..<100_000 {
      let bytes = SecureRandom.bytes(16)
      #expect(bytes.count == 16)
      seen.insert(bytes)
    }
    #expect(seen.count == 100_000)
    #expect(SecureRandom.bytes(0).isEmpty)
  }
}
