import Cryptography
import LatchkeyModel
import Storage
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
    let code = String(decoding: message.code.exposed, as: UTF8.self)
    let minutes = max(1, message.lifetime.secondsRoundedUp / 60)
    let use = message.purpose == .recovery ? ["With it a new password is set for your account."] : []
    let body =
      ["Your code is \(code).", ""] + use + [
        "It holds for \(minutes) minutes and once. Give it to nobody: nobody of ours will ask for it.",
        "If you did not ask for it, you need do nothing.",
      ]
    try await mail("Your code is \(code)", body, to: message.identifier, key: Base64URL.encode(random.bytes(16)))
  }

  package func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError) {
    let text = notice.notice.text(in: notice.locale)
    try await mail(text.subject, [text.body], to: notice.recipient, key: notice.key)
  }

  private func mail(
    _ subject: String, _ body: [String], to identifier: AccountIdentifier, key: String
  ) async throws(CodeDeliveryError) {
    let mail = MailSubmission(
      server: server,
      sender: sender.canonical,
      recipient: identifier.canonical,
      text: text(subject, body, to: identifier, key: key)
    )
    try await DeliveryRetry.run { () throws(TransferError) in try await send(mail) }
  }

  /// The message's id is the same for every try. An address holds neither line breaks nor angle brackets, so nobody adds a header of their own.
  private func text(_ subject: String, _ body: [String], to identifier: AccountIdentifier, key: String) -> [UInt8] {
    let domain = sender.canonical.split(separator: "@").last ?? "localhost"
    let lines = [
      "From: <\(sender.canonical)>",
      "To: <\(identifier.canonical)>",
      "Subject: \(Self.header(subject))",
      "Date: \(clock.now().rfc5322)",
      "Message-ID: <\(key)@\(domain)>",
      "Auto-Submitted: auto-generated",
      "MIME-Version: 1.0",
      "Content-Type: text/plain; charset=utf-8",
      "Content-Transfer-Encoding: 8bit",
      "",
    ]
    return Array((lines + body + [""]).joined(separator: "\r\n").utf8)
  }

  /// A header is ASCII; what is not becomes encoded words (RFC 2047), of at most 45 bytes each.
  private static func header(_ text: String) -> String {
    guard !text.utf8.allSatisfy({ $0 < 0x80 }) else { return text }
    var words: [String] = []
    for character in text {
      if let last = words.last, last.utf8.count + character.utf8.count <= 45 {
        words[words.count - 1].append(character)
      } else {
        words.append(String(character))
      }
    }
    return words.map { word in
      let digits = Base64URL.encode(Array(word.utf8)).map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
      return "=?UTF-8?B?\(String(digits))\(String(repeating: "=", count: (3 - word.utf8.count % 3) % 3))?="
    }.joined(separator: "\r\n ")
  }
}
