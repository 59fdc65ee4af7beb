import Callers
import LatchkeyModel
import ServiceRuntime

/// The effective configuration of `latchkey-qr`.
typealias QRConfiguration = Configured<QRKeys>

/// The configuration keys of `latchkey-qr`, besides those that every service reads: a key is one property here.
struct QRKeys: ConfigurationKeys {
  let verificationBase = ConfigurationKey<QRVerificationBase?>(
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

  let clients = ConfigurationKey<[ClientID]?>(
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

  let trustedInitiators = ConfigurationKey<[TrustedInitiators.Entry]>(
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

  let instance = ConfigurationKey.integer(
    "instance",
    default: 0,
    in: 0...65535,
    help: "number of this instance in the codes that it issues; over PostgreSQL it leases one, and this is not used"
  )
  let identityCell = QRKeys.identityCell
  let lifetime = ConfigurationKey.duration(
    "code.lifetime",
    default: .seconds(120),
    in: .seconds(1)...QRLimits.maximumLifetime,
    help: "how long a code lives"
  )
  let pollInterval = ConfigurationKey.duration(
    "poll.interval",
    default: .seconds(5),
    in: .zero...(.seconds(60)),
    help: "least time between two polls; 0s never throttles"
  )
  let longPollInterval = ConfigurationKey.duration(
    "poll.longInterval",
    default: .seconds(2),
    in: .zero...(.seconds(60)),
    help: "least time between two polls that wait; 0s never throttles"
  )
  let maximumAuthenticationAge = ConfigurationKey.duration(
    "confirm.maximumAuthenticationAge",
    default: .zero,
    in: .zero...(.seconds(365 * 86_400)),
    help: "oldest proof of identity that may confirm; 0s accepts any"
  )
  let checkCode = ConfigurationKey<QRSettings.CheckCodePolicy>.choice(
    "confirm.checkCode",
    default: .onRisk,
    help: "when the screen's two digits are asked for: never, onRisk, always"
  )
  let riskRules = ConfigurationKey<[QRRiskPolicy.Rule]>(
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
  let riskStepUp = ConfigurationKey<QRRiskPolicy.StepUp>.choice(
    "risk.stepUp",
    default: .checkCode,
    help: "what step-up asks for: checkCode, reauthentication (recent sign-in or device key), both"
  )
  let riskFarKilometres = ConfigurationKey.integer(
    "risk.farKilometres",
    default: 200,
    in: 1...20_000,
    help: "networks further apart are far; needs risk.geoFiles"
  )
  let riskGeoFiles = ConfigurationKey.strings(
    "risk.geoFiles",
    help: "tables of places: CSV with a header and the columns network (or start_ip, end_ip), latitude, longitude, "
      + "such as MaxMind's City blocks; read at start and on SIGHUP"
  )
  let stepUpAge = ConfigurationKey.duration(
    "confirm.stepUpAge",
    default: .seconds(300),
    in: .seconds(1)...(.seconds(86_400)),
    help: "oldest proof of identity that answers a step-up by reauthentication"
  )
  let outstandingCodes = ConfigurationKey.integer(
    "limits.outstandingCodes",
    default: 1200,
    in: 0...1_000_000,
    help: "codes of one address or IPv6 /64 that may wait at a time; 0, or no issuesPerMinute, for any number"
  )
  let decisionsPerMinute = ConfigurationKey.integer(
    "limits.decisionsPerMinute",
    default: 600,
    in: 0...1_000_000,
    help: "confirmations and refusals that one account may send in vain in a minute; 0 for any number"
  )
  let issuesPerMinute = ConfigurationKey.integer(
    "limits.issuesPerMinute",
    default: 600,
    in: 0...1_000_000,
    help: "codes that one address or IPv6 /64 may ask for in a minute; 0 for any number"
  )
  let scansPerMinute = ConfigurationKey.integer(
    "limits.scansPerMinute",
    default: 60,
    in: 0...1_000_000,
    help: "codes that one account may scan in a minute; 0 for any number"
  )

  let signInClient = ConfigurationKey<ClientID?>(
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

  let clientNames = ConfigurationKey<[ClientID: DisplayText]>(
    "clientNames",
    default: .strings([]),
    help: "client=name: what phones call a client that says nothing of itself, such as player=Player for TV; a client "
      + "without a name is called by its id"
  ) { value throws(ConfigurationError) in
    guard case .strings(let texts) = value else {
      throw .invalidValue(key: "clientNames", reason: "must be a list of texts")
    }
    var names: [ClientID: DisplayText] = [:]
    for text in texts {
      let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      guard sides.count == 2, let client = ClientID(sides[0]), let name = DisplayText(plain: sides[1]),
        names.updateValue(name, forKey: client) == nil
      else {
        throw .invalidValue(
          key: "clientNames",
          reason: "must be entries such as player=Player for TV, each client once; \(text) is none")
      }
    }
    return names
  }

  let clientsWithoutPKCE = ConfigurationKey<Set<ClientID>>(
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

  static let identityCell = ConfigurationKey.integer(
    "identity.cell",
    default: 0,
    in: 0...65535,
    help: "cell of the identity service that this one asks: its subjects alone confirm codes here"
  )

  init() {}

  /// The defaults with `dev`: one machine is every screen and every phone of a test.
  var development: [String: ConfigurationValue] {
    [issuesPerMinute.name: .integer(0), scansPerMinute.name: .integer(0), decisionsPerMinute.name: .integer(0)]
  }
}

/// What an installation decides about its QR sign-in.
package struct QRSettings: Sendable {
  /// When the person has to type the two digits of the initiating screen (S9).
  package enum CheckCodePolicy: String, Sendable, CaseIterable {
    case never
    /// When the two devices are not in one network.
    case onRisk
    case always
  }

  /// Where codes point.
  package var verificationBase: QRVerificationBase
  /// Numbers this instance in the session ids that it makes.
  package var instance: UInt16 = 0
  /// How long a code lives (S4).
  package var lifetime: Duration = .seconds(120)
  /// Between two plain polls, and between two that wait. Zero never throttles.
  package var interval: Duration = .seconds(5)
  package var longPollInterval: Duration = .seconds(2)
  /// Who may ask for codes (S12); nil lets any well-formed client id in.
  package var clients: Set<ClientID>?
  /// What phones call them; a client without a name is called by its id.
  package var clientNames: [ClientID: DisplayText] = [:]
  /// Those that the device grant serves without PKCE (S28).
  package var clientsWithoutPKCE: Set<ClientID> = []
  /// On which devices and networks, for clients that run on known ones only.
  package var trustedInitiators = TrustedInitiators()
  package var confirm = QRConfirmPolicy()
  /// How recent a proof must be that lets somebody in for long.
  package var stepUp = StepUpPolicy()
  package var checkCode = CheckCodePolicy.onRisk
  /// What the two devices' networks, places and radio lead to (S10).
  package var risk = QRRiskPolicy()
  /// Networks further apart than this are `far`.
  package var farKilometres = 200

  /// Codes that one source may ask for (S13); nil for any number.
  package var issueRate: Rate? = Rate(600, per: .seconds(60))
  /// Codes of one source that may be on screens at a time; nil for any number.
  package var outstandingCodes: Int? = 1200
  /// Confirmations and refusals that one account may send without one of them being right (R26).
  package var decisionRate: Rate? = Rate(600, per: .seconds(60))
  /// Codes that one account may scan.
  package var scanRate: Rate? = Rate(60, per: .seconds(60))
  /// Codes that one account may scan without any of them being there for it to confirm, and of these the typed ones
  /// (S13, S15).
  package var wrongCodeRate = Rate(30, per: .seconds(60))
  package var userCodeTries = Rate(5, per: .seconds(600))
  /// Device codes that memory does not know and storage is asked about, for one source.
  package var unknownCodeRate = Rate(60, per: .seconds(60))
  /// Networks that may ask for and look up any number of codes.
  package var exempt: [NetworkRange] = []

  package init(verificationBase: QRVerificationBase, clients: Set<ClientID>?) {
    self.verificationBase = verificationBase
    self.clients = clients
  }
}

extension QRSettings {
  /// Errors: ``StartupError``, where the keys do not go together.
  init(_ configuration: QRConfiguration) throws {
    self.init(
      verificationBase: try Self.verificationBase(configuration),
      clients: configuration.clients.map(Set.init)
    )
    trustedInitiators = TrustedInitiators(configuration.trustedInitiators)
    clientNames = configuration.clientNames
    clientsWithoutPKCE = configuration.clientsWithoutPKCE
    instance = UInt16(configuration.instance)
    lifetime = configuration.lifetime
    interval = configuration.pollInterval
    longPollInterval = configuration.longPollInterval
    let age = configuration.maximumAuthenticationAge
    confirm.maximumAuthenticationAge = age > .zero ? age : nil
    confirm.stepUpAge = configuration.stepUpAge
    stepUp = StepUpPolicy(maximumAge: configuration.service[CommonKeys.stepUpAge])
    checkCode = configuration.checkCode
    risk = QRRiskPolicy(rules: configuration.riskRules, stepUp: configuration.riskStepUp)
    farKilometres = configuration.riskFarKilometres
    issueRate = Self.rate(configuration.issuesPerMinute)
    let outstanding = configuration.outstandingCodes
    outstandingCodes = outstanding > 0 && issueRate != nil ? outstanding : nil
    exempt = configuration.service[CommonKeys.exemptNetworks]
    scanRate = Self.rate(configuration.scansPerMinute)
    decisionRate = Self.rate(configuration.decisionsPerMinute)
  }

  private static func rate(_ perMinute: Int) -> Rate? {
    perMinute > 0 ? Rate(perMinute, per: .seconds(60)) : nil
  }

  /// As configured, or where this service listens, which is right for one machine.
  private static func verificationBase(_ configuration: QRConfiguration) throws -> QRVerificationBase {
    if let base = configuration.verificationBase { return base }
    let scheme = configuration.service.certificateFiles == nil ? "http" : "https"
    let listen = configuration.service.listen
    let endpoint = listen.port == 0 ? configuration.service[CommonKeys.qrAddress] : listen
    guard let base = QRVerificationBase("\(scheme)://\(endpoint)") else {
      throw StartupError("verification.base must be set: \(endpoint) is no address to put into a code", exitStatus: 78)
    }
    return base
  }
}
