import LatchkeyModel
import ServiceRuntime
import Transfers

/// The configuration keys of what identity does through other people's servers: delivering codes, and OpenID providers.
package enum DeliveryKeys {
  /// How codes for one kind of identifier are delivered.
  package enum Email: String, Sendable, CaseIterable {
    case file
    case smtp
    case webhook
  }

  package enum Phone: String, Sendable, CaseIterable {
    case file
    case webhook
  }

  package static let email = ConfigurationKey<Email>.choice(
    "otp.email", default: .file,
    help: "how codes reach e-mail addresses: smtp, webhook, or file (otp-outbox.jsonl in dataDir, for development)")
  package static let phone = ConfigurationKey<Phone>.choice(
    "otp.phone", default: .file,
    help: "how codes reach phone numbers: webhook, or file (otp-outbox.jsonl in dataDir, for development)")

  package static let smtpHost = ConfigurationKey.optionalString("smtp.host", help: "mail submission server")
  package static let smtpPort = ConfigurationKey.integer(
    "smtp.port", default: 587, in: 1...65_535, help: "its port: 587 for starttls, 465 for tls")
  package static let smtpSecurity = ConfigurationKey<MailSubmission.Security>.choice(
    "smtp.security", default: .starttls, help: "starttls, tls from the first byte, or none (a relay on this machine)")
  package static let smtpFrom = ConfigurationKey.optionalString(
    "smtp.from", help: "address that codes are mailed from")
  package static let smtpUser = ConfigurationKey.optionalString("smtp.user", help: "user of the mail server")
  package static let smtpPasswordFile = ConfigurationKey.optionalString(
    "smtp.passwordFile", help: "file of mode 0600 with that user's password")
  package static let smtpCAFile = ConfigurationKey.optionalString(
    "smtp.caFile", help: "PEM certificates that the mail server's must chain to; default: the system's")

  package static let webhookURL = ConfigurationKey.optionalString(
    "webhook.url", help: "https address that codes are posted to as JSON, signed (latchkey-signature)")
  package static let webhookSecretFile = ConfigurationKey.optionalString(
    "webhook.secretFile", help: "file of mode 0600 with the secret of at least 16 bytes that calls are signed with")
  package static let webhookCAFile = ConfigurationKey.optionalString(
    "webhook.caFile", help: "PEM certificates that the webhook's must chain to; default: the system's")

  package static let providersFile = ConfigurationKey.optionalString(
    "oidc.file", help: "JSON file with the OpenID providers whose ID tokens sign people in; default: none")

  package static let declarations = [
    email.declaration, phone.declaration, smtpHost.declaration, smtpPort.declaration, smtpSecurity.declaration,
    smtpFrom.declaration, smtpUser.declaration, smtpPasswordFile.declaration, smtpCAFile.declaration,
    webhookURL.declaration, webhookSecretFile.declaration, webhookCAFile.declaration, providersFile.declaration,
  ]
}
