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

  static let trustedInitiators = ConfigurationKey<[TrustedInitiators.Entry]>(
    "initiators.trusted",
    default: .strings([]),
    help: "client=network, client=address or client=key (its RFC 7638 thumbprint): a client named here gets codes only "
      + "on these networks and devices; * names every other client; whoever is not named gets them anywhere"
  ) { value throws(ConfigurationError) in
    guard case .strings(let texts) = value else {
      throw .invalidValue(key: "initiators.trusted", reason: "must be a list of texts")
    }
    var entries: [TrustedInitiators.Entry] = []
    for text in texts {
      guard let entry = TrustedInitiators.Entry(text) else {
        throw .invalidValue(
          key: "initiators.trusted",
          reason: "must be entries such as till=10.1.0.0/16 or till= and a key's thumbprint; \(text) is none")
      }
      entries.append(entry)
    }
    return entries
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
  static let riskRules = ConfigurationKey<[QRRiskPolicy.Rule]>(
    "risk.rules",
    default: .strings([]),
    help: "[client@][purpose:]signal=action; signals different_network, unknown_network, far, unknown_place, "
      + "no_beacon, wrong_beacon; actions allow, warn, step-up, deny; the most particular decides"
  ) { value throws(ConfigurationError) in
    guard case .strings(let texts) = value else {
      throw .invalidValue(key: "risk.rules", reason: "must be a list of texts")
    }
    var rules: [QRRiskPolicy.Rule] = []
    for text in texts {
      guard let rule = QRRiskPolicy.Rule(text) else {
        throw .invalidValue(key: "risk.rules", reason: "must be rules such as login:far=deny; \(text) is none")
      }
      rules.append(rule)
    }
    return rules
  }
  static let riskStepUp = ConfigurationKey<QRRiskPolicy.StepUp>.choice(
    "risk.stepUp",
    default: .checkCode,
    help: "what step-up asks for: checkCode, reauthentication (recent sign-in or device key), both"
  )
  static let riskFarKilometres = ConfigurationKey.integer(
    "risk.farKilometres",
    default: 200,
    in: 1...20_000,
    help: "networks further apart are far; needs risk.geoFiles"
  )
  static let riskGeoFiles = ConfigurationKey.strings(
    "risk.geoFiles",
    help: "tables of places: CSV with a header and the columns network (or start_ip, end_ip), latitude, longitude, "
      + "such as MaxMind's City blocks; read at start and on SIGHUP"
  )
  static let stepUpAge = ConfigurationKey.duration(
    "confirm.stepUpAge",
    default: .seconds(300),
    in: .seconds(1)...(.seconds(86_400)),
    help: "oldest proof of identity that answers a step-up by reauthentication"
  )
  static let outstandingCodes = ConfigurationKey.integer(
    "limits.outstandingCodes",
    default: 1200,
    in: 0...1_000_000,
    help: "codes of one address or IPv6 /64 that may wait at a time; 0, or no issuesPerMinute, for any number"
  )
  static let decisionsPerMinute = ConfigurationKey.integer(
    "limits.decisionsPerMinute",
    default: 600,
    in: 0...1_000_000,
    help: "confirmations and refusals that one account may send in vain in a minute; 0 for any number"
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

  static let signInClient = ConfigurationKey<ClientID?>(
    "signIn.client",
    default: .string("latchkey-demo"),
    help: "client of the sign-in page /signin, which is served if it is one of clients; empty for no page"
  ) { value throws(ConfigurationError) in
    guard case .string(let text) = value, !text.isEmpty else { return nil }
    guard let client = ClientID(text) else {
      throw .invalidValue(key: "signIn.client", reason: "must be a client id")
    }
    return client
  }

  static let clientNames = ConfigurationKey<[ClientID: DisplayText]>(
    "clients.names",
    default: .strings([]),
    help: "client=name: what phones call a client that says nothing of itself, such as player=Player for TV; a client "
      + "without a name is called by its id"
  ) { value throws(ConfigurationError) in
    guard case .strings(let texts) = value else {
      throw .invalidValue(key: "clients.names", reason: "must be a list of texts")
    }
    var names: [ClientID: DisplayText] = [:]
    for text in texts {
      let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      guard sides.count == 2, let client = ClientID(sides[0]), let name = DisplayText(plain: sides[1]),
        names.updateValue(name, forKey: client) == nil
      else {
        throw .invalidValue(
          key: "clients.names",
          reason: "must be entries such as player=Player for TV, each client once; \(text) is none")
      }
    }
    return names
  }

  static let clientsWithoutPKCE = ConfigurationKey<Set<ClientID>>(
    "oauth.clientsWithoutPkce",
    default: .strings([]),
    help: "client ids that the device grant serves without a code_challenge, so that whoever learns a device code "
      + "collects: for stock clients that know no PKCE (RFC 7636)"
  ) { value throws(ConfigurationError) in
    guard case .strings(let texts) = value else {
      throw .invalidValue(key: "oauth.clientsWithoutPkce", reason: "must be a list of texts")
    }
    var clients: Set<ClientID> = []
    for text in texts {
      guard let client = ClientID(text) else {
        throw .invalidValue(key: "oauth.clientsWithoutPkce", reason: "must hold client ids; \(text) is none")
      }
      clients.insert(client)
    }
    return clients
  }

  /// One machine is every screen and every phone of a test.
  static let development: [String: ConfigurationValue] = [
    issuesPerMinute.name: .integer(0), scansPerMinute.name: .integer(0), decisionsPerMinute.name: .integer(0),
  ]

  static let declarations = [
    verificationBase.declaration, clients.declaration, clientNames.declaration, trustedInitiators.declaration,
    signInClient.declaration, clientsWithoutPKCE.declaration,
    instance.declaration, lifetime.declaration,
    pollInterval.declaration, longPollInterval.declaration, maximumAuthenticationAge.declaration,
    stepUpAge.declaration, checkCode.declaration, riskRules.declaration, riskStepUp.declaration,
    riskFarKilometres.declaration, riskGeoFiles.declaration, issuesPerMinute.declaration, outstandingCodes.declaration,
    scansPerMinute.declaration, decisionsPerMinute.declaration,
  ]
}
