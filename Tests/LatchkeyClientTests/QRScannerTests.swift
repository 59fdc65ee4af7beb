import Testing

@testable import LatchkeyClient

@Suite struct QRScannerTests {
  let harness: Harness

  init() async throws { harness = try await Harness() }

  @Test(
    "Q3: a code of anybody else is refused before any call",
    arguments: [
      "https://login.example.evil.test/q/1/AAAAAAAAAAAAAAAAAAAAAA",
      "https://login.example@evil.test/q/1/AAAAAAAAAAAAAAAAAAAAAA",
      "https://evil.test/?https://login.example/q/1/AAAAAAAAAAAAAAAAAAAAAA",
      "http://login.example/q/1/AAAAAAAAAAAAAAAAAAAAAA",
      "HTTPS://login.example/q/1/AAAAAAAAAAAAAAAAAAAAAA",
      "https://login.example:443/q/1/AAAAAAAAAAAAAAAAAAAAAA",
      "https://login.example/q/1/AAAAAAAAAAAAAAAAAAAAAA/",
      "https://login.example/q/2/AAAAAAAAAAAAAAAAAAAAAA",
      "https://login.example/q/1/short",
      "",
    ]
  )
  func foreign(content: String) async throws {
    _ = try await harness.startGuest()
    let calls = harness.channel.calls.count
    await #expect(throws: ClientError.foreignCode) { try await harness.device().scanQRCode(content) }
    #expect(harness.channel.calls.count == calls)
  }

  @Test("Q3: a code of this installation reaches the service")
  func ours() async throws {
    _ = try await harness.startGuest()
    let code = "https://login.example/q/1/AAAAAAAAAAAAAAAAAAAAAA"
    await #expect(throws: ClientError.self) { try await harness.device().scanQRCode(code) }
    #expect(harness.channel.calls.last == "/latchkey.qr.v1.QrSessionService/ScanSession")
  }

  @Test("a ticket prints as nothing and survives the store")
  func ticket() throws {
    let ticket = QRTicket(deviceCode: "secret-one", codeVerifier: "secret-two")
    #expect(!"\(ticket)\(String(reflecting: ticket))".contains("secret"))
    #expect(QRTicket(ticket.encoded()) == ticket)
    #expect(QRTicket(Array("{}".utf8)) == nil)
  }
}
