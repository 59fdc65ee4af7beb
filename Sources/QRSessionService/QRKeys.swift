import LatchkeyModel
import ServiceRuntime

/// The configuration keys of `latchkey-qr`.
enum QRKeys {
  static let verificationBase = ConfigurationKey<QRVerificationBase?>(
    "verification.base",
    default: .string(""),
    help: "public address that codes point to, such as https://login.example; default: the listening port"
  ) { value throws(ConfigurationError) in
    guard case .string(let text) = value, !text.isEmpty else { return nil }
    guard let base = QRVerificationBase(text) else {
      throw .invalidValue(
        key: "verification.base",
        reason: "must be http:// or https://, a lower-case host, and optionally a port and a path without final slash"
      )
    }
    return base
  }

  static let clients = ConfigurationKey<[ClientID]?>(
    "clients",
    default: .strings(["latchkey-demo"]),
    help: "client ids that may ask for codes; * for any"
  ) { value throws(ConfigurationError) in
    guard case .strings(let texts) = value else {
      throw .invalidValue(key: "clients", reason: "must be a list of texts")
    }
    guard texts != ["*"] else { return nil }
    var clients: [ClientID] = []
    for text in texts {
      guard let client = ClientID(text) else {
        throw .invalidValue(key: "clients", reason: "must hold client ids, or * alone")
      }
      clients.append(client)
    }
    return clients
  }

  static let instance = ConfigurationKey.integer(
    "instance",
    default: 0,
    in: 0...65535,
    help: "number of this instance, different for each over one database"
  )
  static let lifetime = ConfigurationKey.duration(
    "code.lifetime",
    default: .seconds(120),
    in: .seconds(1)...QRLimits.maximumLifetime,
    help: "how long a code lives"
  )
  static let pollInterval = ConfigurationKey.duration(
    "poll.interval",
    default: .seconds(5),
    in: .zero...(.seconds(60)),
    help: "least time between two polls; 0s never throttles"
  )
  static let longPollInterval = ConfigurationKey.duration(
    "poll.longInterval",
    default: .seconds(2),
    in: .zero...(.seconds(60)),
    help: "least time between two polls that wait; 0s never throttles"
  )
  static let maximumAuthenticationAge = ConfigurationKey.duration(
    "confirm.maximumAuthenticationAge",
    default: .zero,
    in: .zero...(.seconds(365 * 86_400)),
    help: "oldest proof of identity that may confirm; 0s accepts any"
  )
  static let checkCode = ConfigurationKey<QRSettings.CheckCodePolicy>.choice(
    "confirm.checkCode",
    default: .onRisk,
    help: "when the screen's two digits are asked for: never, onRisk, always"
  )
  static let issuesPerMinute = ConfigurationKey.integer(
    "limits.issuesPerMinute",
    default: 600,
    in: 0...1_000_000,
    help: "codes that one address or IPv6 /64 may ask for in a minute; 0 for any number"
  )
  static let scansPerMinute = ConfigurationKey.integer(
    "limits.scansPerMinute",
    default: 60,
    in: 0...1_000_000,
    help: "codes that one account may scan in a minute; 0 for any number"
  )

  static let declarations = [
    verificationBase.declaration, clients.declaration, instance.declaration, lifetime.declaration,
    pollInterval.declaration, longPollInterval.declaration, maximumAuthenticationAge.declaration,
    checkCode.declaration, issuesPerMinute.declaration, scansPerMinute.declaration,
  ]
}
