import Cryptography
import JSON
import LatchkeyModel
import Synchronization
import TestSupport
import Testing
import Transfers

@testable import IdentityService

@Suite("Delivering codes")
struct CodeSinkTests {
  private let clock = ManualClock()
  private let random = RandomSource { SecureRandom.bytes($0) }

  private func message(_ identifier: String = "ada@example.com") throws -> CodeMessage {
    CodeMessage(
      identifier: try AccountIdentifier(identifier).orThrow(), code: RedactedSecret("012345"),
      locale: LanguageTag("de"), lifetime: .seconds(300))
  }

  /// Answers in turn, the last one for ever, and keeps what it was sent.
  private final class Wire: Sendable {
    let state: Mutex<(answers: [Result<HTTPResponse, TransferError>], requests: [HTTPRequest])>

    init(_ answers: [Result<HTTPResponse, TransferError>]) { state = Mutex((answers, [])) }

    func send(_ request: HTTPRequest) throws(TransferError) -> HTTPResponse {
      let answer = state.withLock { state in
        state.requests.append(request)
        return state.answers.count > 1 ? state.answers.removeFirst() : state.answers[0]
      }
      return try answer.get()
    }

    var requests: [HTTPRequest] { state.withLock { $0.requests } }
  }

  private func webhook(_ wire: Wire) -> WebhookCodeSink {
    WebhookCodeSink(
      "https://sms.example/send", secret: RedactedSecret("0123456789abcdef"), authoritiesFile: nil, clock: clock,
      random: random
    ) { request throws(TransferError) in try wire.send(request) }
  }

  private static func status(_ code: Int) -> Result<HTTPResponse, TransferError> {
    .success(HTTPResponse(status: code, body: []))
  }

  @Test("G23: a webhook gets the code as JSON, signed over the time and the body")
  func webhookSigns() async throws {
    let wire = Wire([Self.status(204)])
    try await webhook(wire).deliver(try message("+14155550123"))
    let request = try wire.requests.first.orThrow()
    let body = try request.body.orThrow()
    let json = try JSONValue(parsing: body)
    #expect(json["kind"]?.string == "phone" && json["to"]?.string == "+14155550123")
    #expect(json["code"]?.string == "012345" && json["locale"]?.string == "de")
    let fields = Dictionary(uniqueKeysWithValues: request.fields.map { ($0.name, $0.value) })
    #expect(fields["latchkey-timestamp"] == "1800000000")
    let code = HMACSHA256.authenticate(Array("1800000000.".utf8) + body, key: Array("0123456789abcdef".utf8))
    let hexadecimal = code.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    #expect(fields["latchkey-signature"] == "v1=\(hexadecimal)")
  }

  @Test("G25: a webhook that fails for a moment is tried again under one key; one that refuses is not")
  func webhookRetries() async throws {
    let down = Result<HTTPResponse, TransferError>.failure(TransferError("down", isRetryable: true))
    let wire = Wire([Self.status(503), down, Self.status(200)])
    try await webhook(wire).deliver(try message())
    #expect(wire.requests.count == 3)
    let keys = Set(wire.requests.map { $0.fields.first { $0.name == "idempotency-key" }?.value })
    #expect(keys.count == 1 && !keys.contains(nil))

    let refusing = Wire([Self.status(403)])
    await #expect(throws: CodeDeliveryError.self) { try await webhook(refusing).deliver(try message()) }
    #expect(refusing.requests.count == 1)

    let failing = Wire([Self.status(500)])
    await #expect(throws: CodeDeliveryError.self) { try await webhook(failing).deliver(try message()) }
    #expect(failing.requests.count == 1 + Limits.deliveryPauses.count)
  }

  @Test("G23: a mail holds the code, in lines that end as mail's do, and no header of anybody's making")
  func mail() async throws {
    let sent = Mutex<[MailSubmission]>([])
    let server = MailSubmission.Server(host: "mail.example", port: 587, security: .starttls)
    let sink = SMTPCodeSink(
      server, sender: try EmailAddress("codes@example.com").orThrow(), clock: clock, random: random
    ) { mail throws(TransferError) in sent.withLock { $0.append(mail) } }
    try await sink.deliver(try message())
    let mail = try sent.withLock { $0.first }.orThrow()
    #expect(mail.sender == "codes@example.com" && mail.recipient == "ada@example.com")
    let lines = String(decoding: mail.text, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
    #expect(lines.contains("Subject: Your code is 012345"))
    #expect(lines.contains("To: <ada@example.com>"))
    #expect(lines.contains("Date: 15 Jan 2027 08:00:00 +0000"))
    #expect(lines.contains("It holds for 5 minutes and once. Give it to nobody: nobody of ours will ask for it."))
    #expect(lines.allSatisfy { !$0.contains("\n") && !$0.contains("\r") })
  }

  @Test(
    "A mail's date is right around leap days and before the epoch",
    arguments: [
      (0, "1 Jan 1970 00:00:00 +0000"), (951_782_400, "29 Feb 2000 00:00:00 +0000"),
      (4_107_542_399, "28 Feb 2100 23:59:59 +0000"), (-1, "31 Dec 1969 23:59:59 +0000"),
      (1_735_689_599, "31 Dec 2024 23:59:59 +0000"),
    ])
  func dates(_ seconds: Int, _ text: String) {
    #expect(Timestamp(secondsSinceEpoch: Int64(seconds)).rfc5322 == text)
  }
}
