import Testing

@testable import Cryptography

@Suite("AES-256-GCM")
struct AES256GCMTests {
  private let key = [UInt8](repeating: 7, count: 32)

  @Test(
    "what was sealed is opened by the same key in the same context, whatever its length", arguments: [0, 1, 16, 1000])
  func roundTrip(_ count: Int) {
    let message = SecureRandom.bytes(count)
    let sealed = AES256GCM.seal(message, key: key, context: [1, 2])
    #expect(sealed.count == count + 28)
    #expect(AES256GCM.open(sealed, key: key, context: [1, 2]) == message)
    #expect(AES256GCM.seal(message, key: key, context: [1, 2]) != sealed)
  }

  @Test("a changed byte, another key, another context or a part is not opened")
  func refusals() {
    let sealed = AES256GCM.seal(Array("tokens".utf8), key: key, context: [1])
    for place in sealed.indices {
      var changed = sealed
      changed[place] ^= 1
      #expect(AES256GCM.open(changed, key: key, context: [1]) == nil)
    }
    #expect(AES256GCM.open(sealed, key: [UInt8](repeating: 8, count: 32), context: [1]) == nil)
    #expect(AES256GCM.open(sealed, key: key, context: [2]) == nil)
    #expect(AES256GCM.open(Array(sealed.dropLast()), key: key, context: [1]) == nil)
    #expect(AES256GCM.open([], key: key, context: [1]) == nil)
  }

  @Test("what many threads seal and open at once is each one's own")
  func concurrently() async {
    await withTaskGroup(of: Bool.self) { group in
      for number in 0..<200 {
        group.addTask {
          let key = SecureRandom.bytes(AES256GCM.keyByteCount)
          let message = Array("message \(number)".utf8)
          return (0..<20).allSatisfy { _ in
            AES256GCM.open(AES256GCM.seal(message, key: key, context: [1]), key: key, context: [1]) == message
          }
        }
      }
      for await same in group { #expect(same) }
    }
  }

  @Test("NIST's test case 14 opens")
  func knownAnswer() {
    // The Galois/Counter Mode of Operation (GCM), appendix B: key and nonce of zeros, sixteen bytes of zeros.
    let cipher = hex("cea7403d4d606b6e074ec5d3baf39d18")
    let tag = hex("d0d1c8a799996bf0265b98b5d48ab919")
    let sealed = [UInt8](repeating: 0, count: 12) + cipher + tag
    let zeros = [UInt8](repeating: 0, count: 32)
    #expect(AES256GCM.open(sealed, key: zeros, context: []) == [UInt8](repeating: 0, count: 16))
  }
}
