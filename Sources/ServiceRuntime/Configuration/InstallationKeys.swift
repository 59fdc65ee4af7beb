/// The names of every service's own keys.
///
/// The services of one installation are often given one environment: a variable of another service is then no mistake,
/// while one that no service reads is. A service knows the declarations of its own keys only, so all the names stand
/// here; each service's tests compare them with what it declares.
package enum InstallationKeys {
  /// The names of `service`'s keys, besides ``CommonKeys``.
  package static func names(of service: PeerService) -> [String] {
    switch service {
    case .identity:
      [
        "token.accessLifetime", "token.refreshIdle", "token.refreshAbsoluteGuest", "token.refreshAbsoluteAccount",
        "token.refreshAbsoluteQr", "token.audiences", "signingKey.period", "signingKey.rotate", "guest.perHour",
        "guest.retention", "guest.limit", "audit.retention", "audit.refusals", "web.cookieDomain",
        "password.memoryKib", "password.passes", "password.threads", "guide.file",
        "register.perHour", "signIn.perHour", "otp.perHour", "otp.required", "otp.email", "otp.phone", "smtp.host",
        "smtp.port",
        "smtp.security", "smtp.from", "smtp.user", "smtp.passwordFile", "smtp.caFile", "webhook.url",
        "webhook.secretFile", "webhook.caFile", "oidc.file",
      ]
    case .qr:
      [
        "verification.base", "clients", "clients.names", "initiators.trusted", "signIn.client",
        "oauth.clientsWithoutPkce",
        "instance", "code.lifetime",
        "poll.interval",
        "poll.longInterval",
        "confirm.maximumAuthenticationAge", "confirm.stepUpAge", "confirm.checkCode", "risk.rules", "risk.stepUp",
        "risk.farKilometres", "risk.geoFiles", "limits.issuesPerMinute", "limits.outstandingCodes",
        "limits.scansPerMinute", "limits.decisionsPerMinute",
      ]
    case .migrator:
      [
        "migration.collections", "migration.undoWindow", "records.accountCount", "records.accountMib",
        "records.guestCount", "records.guestMib",
      ]
    }
  }

  /// The environment variables of all of them, without the prefix.
  static let environmentNames = Set(
    PeerService.allCases.flatMap { names(of: $0) }.map(ConfigurationName.environment)
  )
}
