import Synchronization
import TestSupport
import Testing

@testable import LatchkeyModel

@Suite struct QRValueTests {
  @Test("S15: a user code is 8 of the 20 consonants, drawn without bias")
  func userCodeAlphabet() {
    var random = SeededRandom(seed: 42)
    var counts: [UInt8: Int] = [:]
    for _ in 0..<5000 {
      let bytes = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
      let drawn = Mutex(0)
      let code = UserCode(
        random: RandomSource { count in
          drawn.withLock { start in
            defer { start += count }
            return Array(bytes[start..<(start + count)])
          }
        }
      )
      #expect(code.letters.count == 8)
      for letter in code.letters { counts[letter, default: 0] += 1 }
    }
    #expect(Set(counts.keys) == Set("BCDFGHJKLMNPQRSTVWXZ".utf8))
    // 40,000 letters over 20: 2,000 each, standard deviation 44; six of them either side.
    for count in counts.values { #expect((1736...2264).contains(count)) }
  }

  @Test("S15: bytes that would make some letters likelier are thrown away")
  func userCodeRejection() {
    let bytes: [UInt8] = [255, 240, 239, 0, 20, 241, 250, 19]
    let code = UserCode(random: RandomSource { Array(bytes.prefix($0)) })
    #expect(code.text == "ZBBZ-ZBBZ")
  }

  @Test("S15: a person may type a code in any case, with hyphens and spaces")
  func userCodeTyped() {
    #expect(UserCode(typed: "bcdf-ghjk")?.text == "BCDF-GHJK")
    #expect(UserCode(typed: " BCDF GHJK ")?.text == "BCDF-GHJK")
    #expect(UserCode(typed: "BCDFGHJK")?.text == "BCDF-GHJK")
    for text in [
      "", "BCDFGHJ", "BCDFGHJKL", "BCDFGHJA", "BCDFGHJ1", "BCDF\u{2010}GHJK", String(repeating: "-", count: 99),
    ] {
      #expect(UserCode(typed: text) == nil, "\(text)")
    }
  }

  @Test("S2: the poll secret holds 256 bits and shares nothing with the code's reference")
  func pollSecret() {
    let secret = PollSecret(from: QRSamples.constant(7))
    #expect(secret.bytes.count * 8 == 256)
    #expect(PollSecret(text: secret.text)?.bytes == secret.bytes)
    #expect(PollSecret(text: QRReference(from: QRSamples.constant(7)).text) == nil)
    #expect(PollSecret(text: "") == nil)
    #expect(PollSecret(text: String(repeating: "!", count: 43)) == nil)
  }

  @Test("R2: no secret shows itself when it is printed or dumped")
  func secretsAreRedacted() {
    let bytes = [UInt8](repeating: 7, count: 32)
    let secrets: [(any CustomStringConvertible & CustomReflectable, String)] = [
      (PollSecret(from: QRSamples.constant(7)), Base64URL.encode(bytes)),
      (QRReference(from: QRSamples.constant(7)), Base64URL.encode(Array(bytes.prefix(16)))),
      (ConfirmTicket(session: QRSamples.id, secret: bytes, in: .first), Base64URL.encode(bytes)),
      (UserCode(random: QRSamples.constant(0)), "BBBB"),
    ]
    for (secret, text) in secrets {
      var dumped = ""
      dump(secret, to: &dumped)
      for shown in ["\(secret)", String(reflecting: secret), dumped] {
        #expect(shown.contains("[redacted]"))
        #expect(!shown.contains(text) && !shown.contains("7, 7") && !shown.contains("66, 66"))
      }
    }
  }

  @Test("A session id names its cell and the instance that issued it, and reads back", arguments: [0, 3, 0xFEDC])
  func sessionID(cell: UInt16) throws {
    let id = QRSessionID(instance: 0xABCD, from: RandomSource(in: Cell(cell)) { _ in Array(1...12) })
    #expect(id.instance == 0xABCD && id.cell == Cell(cell))
    #expect(id.bytes == Cell(cell).bytes + [0xAB, 0xCD] + Array(1...12))
    let before = try #require(QRSessionID.last(before: 0xABCD, in: Cell(cell)))
    #expect(before.bytes.lexicographicallyPrecedes(id.bytes))
    #expect(before.instance == 0xABCC && before.cell == Cell(cell))
    #expect(QRSessionID(text: id.description) == id)
    #expect(QRSessionID(bytes: id.bytes) == id)
    #expect(QRSessionID(text: "short") == nil)
    #expect(QRSessionID(bytes: [1, 2, 3]) == nil)
  }

  @Test("A confirm ticket carries its session's id and reads back")
  func confirmTicket() {
    let ticket = ConfirmTicket(session: QRSamples.id, secret: [UInt8](repeating: 3, count: 32), in: .first)
    let read = ConfirmTicket(text: ticket.text)
    #expect(read?.session == ticket.session)
    #expect(read?.secret == ticket.secret)
    #expect(ConfirmTicket(text: String(ticket.text.dropLast())) == nil)
    #expect(ConfirmTicket(text: ticket.text + "A") == nil)
  }

  @Test("S3: a challenge is 43 characters of base64url and met by its own digest only")
  func challenge() throws {
    // RFC 7636 appendix B.
    let challenge = try #require(PKCEChallenge(text: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"))
    let digest: [UInt8] = [
      19, 211, 30, 150, 26, 26, 216, 236, 47, 22, 177, 12, 76, 152, 46, 8,
      118, 168, 120, 173, 109, 241, 68, 86, 110, 225, 137, 74, 203, 112, 249, 195,
    ]
    #expect(challenge.isMet(by: try #require(Digest256(digest))))
    #expect(challenge.text == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
    for index in digest.indices {
      var other = digest
      other[index] ^= 1
      #expect(!challenge.isMet(by: try #require(Digest256(other))))
    }
    #expect(PKCEChallenge(text: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM=") == nil)
    #expect(PKCEChallenge(text: "") == nil)
  }

  @Test("S3: a verifier is 43 to 128 unreserved characters")
  func verifiers() {
    #expect(PKCEChallenge.isVerifier("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"))
    #expect(PKCEChallenge.isVerifier(String(repeating: "~", count: 128)))
    #expect(!PKCEChallenge.isVerifier(String(repeating: "a", count: 42)))
    #expect(!PKCEChallenge.isVerifier(String(repeating: "a", count: 129)))
    #expect(!PKCEChallenge.isVerifier(String(repeating: "a", count: 42) + "+"))
    #expect(!PKCEChallenge.isVerifier(String(repeating: "a", count: 42) + "é"))
  }

  @Test("S9: a check code is two digits")
  func checkCodes() {
    #expect(CheckCode(typed: "07")?.value == 7)
    #expect(CheckCode(typed: "07")?.text == "07")
    #expect(CheckCode(typed: "99")?.text == "99")
    for text in ["", "7", "007", "7a", "-7", "٠٧"] { #expect(CheckCode(typed: text) == nil) }
    let challenge = PKCEChallenge(digest: QRSamples.digest(1))
    #expect(CheckCode.preimage(pollSecret: QRSamples.digest(2), challenge: challenge).count == 24 + 64)
  }
}
