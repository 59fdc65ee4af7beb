import LatchkeyModel
import TestSupport
import Testing

@Suite struct Base64URLTests {
  private func decode32(_ text: [UInt8]) -> [UInt8]? {
    Base64URL.decode32(text.span).map { bytes in (0..<32).map { bytes[$0] } }
  }

  @Test("32 bytes come back from their text, by both ways of reading it")
  func thereAndBack() {
    var random = SeededRandom(seed: 1)
    for _ in 0..<500 {
      let bytes = random.bytes(32)
      let text = Array(Base64URL.encode(bytes).utf8)
      #expect(decode32(text) == bytes)
      #expect(Base64URL.decode(text) == bytes)
    }
  }

  @Test("Bytes of every count come back from their text, which has the characters of RFC 4648")
  func everyCount() {
    var random = SeededRandom(seed: 2)
    for count in 0...100 {
      let bytes = random.bytes(count)
      let text = Base64URL.encode(bytes)
      #expect(text.utf8.count == (count * 8 + 5) / 6)
      #expect(Base64URL.decode(text) == bytes)
    }
    // Section 10, and all 64 characters.
    for (bytes, text) in [
      ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
      ("foobar", "Zm9vYmFy"),
    ] {
      #expect(Base64URL.encode(Array(bytes.utf8)) == text)
    }
    let all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    #expect(Base64URL.decode(all).map(Base64URL.encode) == all)
    #expect(Base64URL.encode([0xFB, 0xEF, 0xFF]) == "--__")
  }

  @Test("Whatever byte stands in whatever place, the way for 32 bytes decides as the general one does")
  func everyByte() {
    let text = Array(Base64URL.encode((0..<32).map { UInt8($0 * 7) }).utf8)
    for place in text.indices {
      for byte in UInt8.min...UInt8.max {
        var changed = text
        changed[place] = byte
        #expect(decode32(changed) == Base64URL.decode(changed), "\(byte) in place \(place)")
      }
    }
    for count in [0, 1, 42, 44, 86] { #expect(decode32([UInt8](repeating: 0x41, count: count)) == nil) }
  }
}
