import Cryptography
import LatchkeyModel
import ServiceRuntime

/// The configuration keys of the identity service, besides those that every service reads.
package enum IdentityKeys {
  private static let defaults = TokenLifetimes()
  private static let hashing = Argon2Parameters.standard

  package static let accessLifetime = ConfigurationKey.duration(
    "token.accessLifetime", default: defaults.access, in: .seconds(5)...(.seconds(3600)),
    help: "how long an access token holds")
  package static let refreshIdle = ConfigurationKey.duration(
    "token.refreshIdle", default: defaults.refreshIdle, in: .seconds(300)...(.seconds(366 * 86_400)),
    help: "a session that is not used for this long expires")
  package static let refreshAbsoluteGuest = ConfigurationKey.duration(
    "token.refreshAbsoluteGuest", default: defaults.refreshAbsoluteGuest,
    in: .seconds(300)...(.seconds(3660 * 86_400)), help: "a guest's session expires this long after it began")
  package static let refreshAbsoluteAccount = ConfigurationKey.duration(
    "token.refreshAbsoluteAccount", default: defaults.refreshAbsoluteAccount,
    in: .seconds(300)...(.seconds(3660 * 86_400)), help: "an account's session expires this long after it began")
  package static let refreshAbsoluteQR = ConfigurationKey.duration(
    "token.refreshAbsoluteQr", default: defaults.refreshAbsoluteQR, in: .seconds(300)...(.seconds(3660 * 86_400)),
    help: "a session that a QR code began expires this long after it")
  package static let audiences = ConfigurationKey.strings(
    "token.audiences", default: ["latchkey-identity", "latchkey-qr", "latchkey-migrator"],
    help: "the services that accept access tokens (aud); latchkey-identity must be one")

  package static let signingKeyPeriod = ConfigurationKey.duration(
    "signingKey.period", default: Limits.signingKeyPeriod, in: .seconds(3600)...(.seconds(3660 * 86_400)),
    help: "how long a signing key signs before the next one takes over")
  package static let rotateSigningKey = ConfigurationKey.boolean(
    "signingKey.rotate", default: false,
    help: "make the next signing key now; it takes over ten minutes later and logs nobody out")

  package static let guestsPerHour = ConfigurationKey.integer(
    "guest.perHour", default: Limits.guestsPerHour, in: 1...1_000_000,
    help: "guest challenges an hour for an IPv4 address or IPv6 /64 before work is asked for")

  package static let registrationsPerHour = ConfigurationKey.integer(
    "register.perHour", default: Limits.registrationsPerHour, in: 1...1_000_000,
    help: "accounts that an IPv4 address or IPv6 /64 may make in an hour before work is asked for")
  package static let signInsPerHour = ConfigurationKey.integer(
    "signIn.perHour", default: Limits.signInsPerHour, in: 1...1_000_000,
    help: "sign-ins that an IPv4 address or IPv6 /64 may try in an hour before work is asked for")
  package static let codesPerHour = ConfigurationKey.integer(
    "otp.perHour", default: Limits.codesPerHour, in: 1...1_000_000,
    help: "one-time codes that an IPv4 address or IPv6 /64 may ask for in an hour before work is asked for")
  package static let codesRequired = ConfigurationKey.boolean(
    "otp.required", default: false,
    help: "an e-mail address or phone number leads to an account only once a code showed that it is its owner's")
  package static let guestRetention = ConfigurationKey.duration(
    "guest.retention", default: Limits.guestRetention, in: .seconds(86_400)...(.seconds(3660 * 86_400)),
    help: "a guest that was not used for this long is deleted, unless it owns data that was never exported")

  package static let guestLimit = ConfigurationKey.integer(
    "guest.limit", default: Limits.guests, in: 1...1_000_000_000,
    help: "guests beyond which no new one is made, and unused ones go although they own data that was never exported")

  package static let auditRefusals = ConfigurationKey.integer(
    "audit.refusals", default: Limits.auditRefusals, in: 0...1_000_000_000,
    help: "refused calls that are kept as events of their own; the rest is recorded as a number an hour")
  package static let auditRetention = ConfigurationKey.duration(
    "audit.retention", default: .zero, in: .zero...(.seconds(3660 * 86_400)),
    help: "security events are kept for this long; 0s keeps them for ever")

  package static let passwordMemoryKiB = ConfigurationKey.integer(
    "password.memoryKib", default: Int(hashing.memoryKiB), in: 8192...262_144,
    help: "memory of one Argon2id hash; changed, passwords are hashed anew as people sign in")
  package static let passwordPasses = ConfigurationKey.integer(
    "password.passes", default: Int(hashing.passes), in: 1...16, help: "passes of one Argon2id hash")
  package static let passwordThreads = ConfigurationKey.integer(
    "password.threads", default: 1, in: 1...64, help: "passwords that are hashed at the same time")

  package static let cookieDomain = ConfigurationKey.optionalString(
    "web.cookieDomain", help: "the domain whose hosts may use web sessions' cookies; default: the issuer's host alone")

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

  package static let guidesFile = ConfigurationKey.optionalString(
    "guide.file", help: "JSON file with the guides, read again when it changes; default: guides.json in dataDir")

  package static let declarations = [
    accessLifetime.declaration, refreshIdle.declaration, refreshAbsoluteGuest.declaration,
    refreshAbsoluteAccount.declaration, refreshAbsoluteQR.declaration, audiences.declaration,
    signingKeyPeriod.declaration, rotateSigningKey.declaration, guestsPerHour.declaration, guidesFile.declaration,
    registrationsPerHour.declaration, signInsPerHour.declaration, codesPerHour.declaration,
    codesRequired.declaration,
    passwordMemoryKiB.declaration, passwordPasses.declaration, passwordThreads.declaration,
    guestRetention.declaration, guestLimit.declaration, auditRetention.declaration, auditRefusals.declaration,
    cookieDomain.declaration,
  ]
}
