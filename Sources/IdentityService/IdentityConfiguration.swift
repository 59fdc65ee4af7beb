import Cryptography
import LatchkeyModel
import ServiceRuntime
import Transfers

/// The effective configuration of the identity service.
package typealias IdentityConfiguration = Configured<IdentityKeys>

/// The configuration keys of the identity service, besides those that every service reads: a key is one property here.
package struct IdentityKeys: ConfigurationKeys {
  package let accessLifetime = ConfigurationKey.duration(
    "token.accessLifetime", default: lifetimes.access, in: .seconds(5)...(.seconds(3600)),
    help: "how long an access token holds")
  package let refreshIdle = ConfigurationKey.duration(
    "token.refreshIdle", default: lifetimes.refreshIdle, in: .seconds(300)...(.seconds(366 * 86_400)),
    help: "a session that is not used for this long expires")
  package let refreshAbsoluteGuest = ConfigurationKey.duration(
    "token.refreshAbsoluteGuest", default: lifetimes.refreshAbsoluteGuest,
    in: .seconds(300)...(.seconds(3660 * 86_400)), help: "a guest's session expires this long after it began")
  package let refreshAbsoluteAccount = ConfigurationKey.duration(
    "token.refreshAbsoluteAccount", default: lifetimes.refreshAbsoluteAccount,
    in: .seconds(300)...(.seconds(3660 * 86_400)), help: "an account's session expires this long after it began")
  package let refreshAbsoluteQR = ConfigurationKey.duration(
    "token.refreshAbsoluteQr", default: lifetimes.refreshAbsoluteQR, in: .seconds(300)...(.seconds(3660 * 86_400)),
    help: "a session that a QR code began expires this long after it")
  package let audiences = ConfigurationKey.strings(
    "token.audiences", default: ["latchkey-identity", "latchkey-qr", "latchkey-migrator"],
    help: "the services that accept access tokens (aud); latchkey-identity must be one")

  package let signingKeyPeriod = ConfigurationKey.duration(
    "signingKey.period", default: Limits.signingKeyPeriod, in: .seconds(3600)...(.seconds(3660 * 86_400)),
    help: "how long a signing key signs before the next one takes over")
  package let rotateSigningKey = ConfigurationKey.boolean(
    "signingKey.rotate", default: false,
    help: "make the next signing key now; it takes over ten minutes later and logs nobody out")

  package let guestsPerHour = ConfigurationKey.integer(
    "guest.perHour", default: Limits.guestsPerHour, in: 1...1_000_000,
    help: "guest challenges an hour for an IPv4 address or IPv6 /64 before work is asked for")

  package let registrationsPerHour = ConfigurationKey.integer(
    "register.perHour", default: Limits.registrationsPerHour, in: 1...1_000_000,
    help: "accounts that an IPv4 address or IPv6 /64 may make in an hour before work is asked for")
  package let signInsPerHour = ConfigurationKey.integer(
    "signIn.perHour", default: Limits.signInsPerHour, in: 1...1_000_000,
    help: "sign-ins that an IPv4 address or IPv6 /64 may try in an hour before work is asked for")
  package let codesPerHour = ConfigurationKey.integer(
    "otp.perHour", default: Limits.codesPerHour, in: 1...1_000_000,
    help: "one-time codes that an IPv4 address or IPv6 /64 may ask for in an hour before work is asked for")
  package let codesRequired = ConfigurationKey.boolean(
    "otp.required", default: false,
    help: "an e-mail address or phone number leads to an account only once a code showed that it is its owner's")
  package let guestRetention = ConfigurationKey.duration(
    "guest.retention", default: Limits.guestRetention, in: .seconds(86_400)...(.seconds(3660 * 86_400)),
    help:
      "a guest that was not used for this long is deleted; one that owns data never exported stays while there is room")

  package let guestLimit = ConfigurationKey.integer(
    "guest.limit", default: Limits.guests, in: 1...1_000_000_000,
    help: "guests beyond which no new one is made, and unused ones go although they own data that was never exported")

  package let auditRefusals = ConfigurationKey.integer(
    "audit.refusals", default: Limits.auditRefusals, in: 0...1_000_000_000,
    help: "refused calls that are kept as events of their own; the rest is recorded as a number an hour")
  package let auditRetention = ConfigurationKey.duration(
    "audit.retention", default: .zero, in: .zero...(.seconds(3660 * 86_400)),
    help: "security events are kept for this long; 0s keeps them for ever")

  package let passwordMemoryKiB = ConfigurationKey.integer(
    "password.memoryKib", default: Int(Argon2Parameters.standard.memoryKiB), in: 8192...262_144,
    help: "memory of one Argon2id hash; changed, passwords are hashed anew as people sign in")
  package let passwordPasses = ConfigurationKey.integer(
    "password.passes", default: Int(Argon2Parameters.standard.passes), in: 1...16, help: "passes of one Argon2id hash")
  package let passwordThreads = ConfigurationKey.integer(
    "password.threads", default: 1, in: 1...64, help: "passwords that are hashed at the same time")

  package let cookieDomain = ConfigurationKey.optionalString(
    "web.cookieDomain", help: "the domain whose hosts may use web sessions' cookies; default: the issuer's host alone")

  package let guidesFile = ConfigurationKey.optionalString(
    "guide.file", help: "JSON file with the guides, read again when it changes; default: guides.json in dataDir")

  /// How codes for one kind of identifier are delivered.
  package enum EmailDelivery: String, Sendable, CaseIterable {
    case file
    case smtp
    case webhook
  }

  package enum PhoneDelivery: String, Sendable, CaseIterable {
    case file
    case webhook
  }

  package let emailDelivery = ConfigurationKey<EmailDelivery>.choice(
    "otp.email", default: .file,
    help: "how codes reach e-mail addresses: smtp, webhook, or file (otp-outbox.jsonl in dataDir, for development)")
  package let phoneDelivery = ConfigurationKey<PhoneDelivery>.choice(
    "otp.phone", default: .file,
    help: "how codes reach phone numbers: webhook, or file (otp-outbox.jsonl in dataDir, for development)")

  package let smtpHost = ConfigurationKey.optionalString("smtp.host", help: "mail submission server")
  package let smtpPort = ConfigurationKey.integer(
    "smtp.port", default: 587, in: 1...65_535, help: "its port: 587 for starttls, 465 for tls")
  package let smtpSecurity = ConfigurationKey<MailSubmission.Security>.choice(
    "smtp.security", default: .starttls, help: "starttls, tls from the first byte, or none (a relay on this machine)")
  package let smtpFrom = ConfigurationKey.optionalString(
    "smtp.from", help: "address that codes are mailed from")
  package let smtpUser = ConfigurationKey.optionalString("smtp.user", help: "user of the mail server")
  package let smtpPasswordFile = ConfigurationKey.optionalString(
    "smtp.passwordFile", help: "file of mode 0600 with that user's password")
  package let smtpCAFile = ConfigurationKey.optionalString(
    "smtp.caFile", help: "PEM certificates that the mail server's must chain to; default: the system's")

  package let webhookURL = ConfigurationKey.optionalString(
    "webhook.url", help: "https address that codes are posted to as JSON, signed (latchkey-signature)")
  package let webhookSecretFile = ConfigurationKey.optionalString(
    "webhook.secretFile", help: "file of mode 0600 with the secret of at least 16 bytes that calls are signed with")
  package let webhookCAFile = ConfigurationKey.optionalString(
    "webhook.caFile", help: "PEM certificates that the webhook's must chain to; default: the system's")

  package let providersFile = ConfigurationKey.optionalString(
    "oidc.file", help: "JSON file with the OpenID providers whose ID tokens sign people in; default: none")

  package init() {}
}

private let lifetimes = TokenLifetimes()

extension IdentityConfiguration {
  /// What one key alone cannot say.
  func check() throws(StartupError) {
    guard self.audiences.contains(IdentityProcess.description.name) else {
      throw StartupError("token.audiences must name \(IdentityProcess.description.name)", exitStatus: 78)
    }
    if let cookieDomain = self.cookieDomain, !IdentityKeys.isDomain(cookieDomain) {
      throw StartupError("web.cookieDomain must be a domain such as example.com", exitStatus: 78)
    }
  }

  /// Errors: names the secret that is missing where none may be made up.
  func requireMountedSecrets() throws {
    try service.requireMounted("\(service.dataDirectory)/identity-secret")
  }

  var hashing: Argon2Parameters {
    Argon2Parameters(memoryKiB: UInt32(self.passwordMemoryKiB), passes: UInt32(self.passwordPasses), lanes: 1)
  }

  var tokenLifetimes: TokenLifetimes {
    var lifetimes = TokenLifetimes()
    lifetimes.access = self.accessLifetime
    lifetimes.refreshIdle = self.refreshIdle
    lifetimes.refreshAbsoluteGuest = self.refreshAbsoluteGuest
    lifetimes.refreshAbsoluteAccount = self.refreshAbsoluteAccount
    lifetimes.refreshAbsoluteQR = self.refreshAbsoluteQR
    return lifetimes
  }
}

extension IdentityKeys {
  /// Lower-case labels with a dot between them, as a cookie's Domain may have.
  static func isDomain(_ text: String) -> Bool {
    let labels = text.split(separator: ".", omittingEmptySubsequences: false)
    return labels.count > 1 && text.utf8.count <= 253
      && labels.allSatisfy { label in
        (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
          && label.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
              || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
              || byte == UInt8(ascii: "-")
          }
      }
  }
}
