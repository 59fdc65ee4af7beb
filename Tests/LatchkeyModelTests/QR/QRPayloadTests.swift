import TestSupport
import Testing

@testable import LatchkeyModel

@Suite struct QRPayloadTests {
  private let base: QRVerificationBase
  private let reference = QRReference(from: RandomSource { _ in Array(1...16) })

  init() throws {
    base = try #require(QRVerificationBase("https://login.example"))
  }

  @Test("S22: the code holds a versioned URL with one reference and nothing else, and reads back")
  func roundTrip() throws {
    let payload = QRPayload(base: base, reference: reference)
    #expect(payload.text == "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA")
    #expect(try QRPayload(reading: payload.text, base: base) == payload)
    #expect(reference.bytes.count * 8 >= 128)
  }

  @Test(
    "S22: a URL that only contains, starts or ends like ours is somebody else's",
    arguments: [
      "https://login.example.evil.test/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://evil.test/https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://login.example@evil.test/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://evil.test/?u=https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://login.example:444/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "http://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "HTTPS://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://LOGIN.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://login.example./q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://login.example//q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://login.example/x/../q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      " https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://login.exa\u{200B}mple/q/1/AQIDBAUGBwgJCgsMDQ4PEA",
      "javascript:alert(1)", "", "WIFI:S:x;;",
    ]
  )
  func notOurs(text: String) {
    #expect(throws: QRPayload.Refusal.notOurs) { try QRPayload(reading: text, base: base) }
  }

  @Test(
    "S22: anything beside the one reference is refused",
    arguments: [
      "https://login.example/q/1/", "https://login.example/q/1", "https://login.example/q/x/AQIDBAUGBwgJCgsMDQ4PEA",
      "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PE", "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEAA",
      "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEB", "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA?a=1",
      "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4PEA#x", "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4P/A",
      "https://login.example/q//AQIDBAUGBwgJCgsMDQ4PEA", "https://login.example/q/1/AQIDBAUGBwgJCgsMDQ4P%45",
    ]
  )
  func malformed(text: String) {
    #expect(throws: QRPayload.Refusal.malformed) { try QRPayload(reading: text, base: base) }
  }

  @Test("S22: a later version is recognised as ours and not guessed at")
  func laterVersion() {
    #expect(throws: QRPayload.Refusal.unsupportedVersion) {
      try QRPayload(reading: "https://login.example/q/2/AQIDBAUGBwgJCgsMDQ4PEA", base: base)
    }
  }

  @Test(
    "A verification base has one canonical form",
    arguments: [
      "http://127.0.0.1:7402", "https://login.example", "https://login.example:8443/auth", "http://[::1]:7402",
    ]
  )
  func bases(text: String) {
    #expect(QRVerificationBase(text)?.text == text)
  }

  @Test(
    "What is no base is refused",
    arguments: [
      "", "login.example", "ftp://login.example", "https://", "https://Login.example", "https://login.example/",
      "https://a@login.example", "https://login.example?x", "https://login.example#x", "https://login..example",
      "https://login.example:0", "https://login.example:080", "https://login.example:99999", "https://-a.example",
      "https://login.example/a//b", "https://login.example/..", "https://login.example/%41", "https://login.exämple",
    ]
  )
  func notBases(text: String) {
    #expect(QRVerificationBase(text) == nil)
  }

  @Test(
    "A random change to a payload never reads as another installation's code, or traps",
    arguments: 0..<8 as Range<UInt64>
  )
  func mutations(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let original = Array(QRPayload(base: base, reference: reference).text.utf8)
    for _ in 0..<2000 {
      var bytes = original
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        let index = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes.remove(at: index)
        default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: index)
        }
      }
      let text = String(decoding: bytes, as: UTF8.self)
      guard let read = try? QRPayload(reading: text, base: base) else { continue }
      #expect(read.text.utf8.elementsEqual(text.utf8), "seed \(seed)")
    }
  }
}
