import Cryptography
import LatchkeyModel
import Transfers

/// Mails codes through a submission server.
package struct SMTPCodeSink: CodeSink {
  package typealias Send = @Sendable (MailSubmission) async throws(TransferError) -> Void

  private let server: MailSubmission.Server
  private let sender: EmailAddress
  private let clock: any WallClock
  private let random: RandomSource
  private let send: Send

  package init(
    _ server: MailSubmission.Server, sender: EmailAddress, clock: any WallClock, random: RandomSource,
    send: @escaping Send
  ) {
    self.server = server
    self.sender = sender
    self.clock = clock
    self.random = random
    self.send = send
  }

  package func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
    let mail = MailSubmission(
      server: server,
      sender: sender.canonical,
      recipient: message.identifier.canonical,
      text: text(message)
    )
    try await DeliveryRetry.run { () throws(TransferError) in try await send(mail) }
  }

  /// An address holds neither line breaks nor angle brackets, so nobody adds a header of their own.
  private func text(_ message: CodeMessage) -> [UInt8] {
    let code = String(decoding: message.code.exposed, as: UTF8.self)
    let minutes = max(1, message.lifetime.secondsRoundedUp / 60)
    let domain = sender.canonical.split(separator: "@").last ?? "localhost"
    let lines = [
      "From: <\(sender.canonical)>",
      "To: <\(message.identifier.canonical)>",
      "Subject: Your code is \(code)",
      "Date: \(clock.now().rfc5322)",
      "Message-ID: <\(Base64URL.encode(random.bytes(16)))@\(domain)>",
      "Auto-Submitted: auto-generated",
      "MIME-Version: 1.0",
      "Content-Type: text/plain; charset=utf-8",
      "Content-Transfer-Encoding: 8bit",
      "",
      "Your code is \(code).",
      "",
      "It holds for \(minutes) minutes and once. Give it to nobody: nobody of ours will ask for it.",
      "If you did not ask for it, you need do nothing.",
      "",
    ]
    return Array(lines.joined(separator: "\r\n").utf8)
  }
}
