import Cryptography
import LatchkeyModel
import ServiceRuntime
import Transfers

/// Makes the sink that the configuration describes.
struct CodeSinks {
  let configuration: IdentityConfiguration
  let transfers: TransferClient
  let clock: any WallClock
  let random: RandomSource

  func make() throws -> any CodeSink {
    let file = FileCodeSink(path: "\(configuration.service.dataDirectory)/otp-outbox.jsonl")
    let email: any CodeSink =
      switch configuration.emailDelivery {
      case .file: file
      case .smtp: try smtp()
      case .webhook: try webhook()
      }
    let phone: any CodeSink =
      switch configuration.phoneDelivery {
      case .file: file
      case .webhook: try webhook()
      }
    return RoutedCodeSink(email: email, phone: phone)
  }

  private func smtp() throws -> SMTPCodeSink {
    guard let host = configuration.smtpHost, Self.isHost(host) else {
      throw refusal("smtp.host", "must be the mail server's name or address")
    }
    guard let sender = configuration.smtpFrom.flatMap({ EmailAddress($0) }) else {
      throw refusal("smtp.from", "must be an e-mail address")
    }
    let user = configuration.smtpUser
    let password = try configuration.smtpPasswordFile.map { try secret($0) }
    guard (user == nil) == (password == nil) else {
      throw refusal("smtp.passwordFile", "and smtp.user go together")
    }
    let server = MailSubmission.Server(
      host: host,
      port: configuration.smtpPort,
      security: configuration.smtpSecurity,
      user: user,
      password: password,
      authoritiesFile: configuration.smtpCAFile
    )
    return SMTPCodeSink(server, sender: sender, clock: clock, random: random) {
      [transfers] mail throws(TransferError) in try await transfers.send(mail)
    }
  }

  private func webhook() throws -> WebhookCodeSink {
    guard let address = configuration.webhookURL, OpenIDProvider.isAcceptable(address) else {
      throw refusal("webhook.url", "must be an https address, or http on this machine")
    }
    guard let path = configuration.webhookSecretFile else {
      throw refusal("webhook.secretFile", "must name the file with the secret that calls are signed with")
    }
    let secret = try secret(path)
    guard secret.exposed.count >= 16 else { throw refusal("webhook.secretFile", "must hold at least 16 bytes") }
    return WebhookCodeSink(
      address, secret: secret, authoritiesFile: configuration.webhookCAFile, clock: clock, random: random
    ) { [transfers] request throws(TransferError) in try await transfers.send(request) }
  }

  /// The file's one line, or its bytes.
  private func secret(_ path: String) throws -> RedactedSecret {
    var bytes = try SecretFile.read(path)
    if bytes.last == 0x0A { bytes.removeLast() }
    return RedactedSecret(bytes)
  }

  private static func isHost(_ text: String) -> Bool {
    (1...253).contains(text.utf8.count)
      && text.utf8.allSatisfy {
        $0.isASCIIAlphanumeric || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ":")
      }
  }

  private func refusal(_ key: String, _ reason: String) -> StartupError {
    StartupError("\(key) \(reason)", exitStatus: 78)
  }
}
