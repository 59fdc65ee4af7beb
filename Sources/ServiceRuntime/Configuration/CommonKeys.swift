package import Callers
package import Logging
package import TransportServer

/// The keys that every service reads.
package enum CommonKeys {
  package static let listenHost = ConfigurationKey.string(
    "listen.host",
    default: "127.0.0.1",
    help: "address that the gRPC port listens on"
  )
  package static let managementHost = ConfigurationKey.string(
    "management.host",
    default: "127.0.0.1",
    help: "address of the cleartext health and metrics port"
  )

  /// 0 lets the system choose; see `portsFile`.
  package static func listenPort(default port: Int = 0) -> ConfigurationKey<Int> {
    .integer("listen.port", default: port, in: 0...65535, help: "gRPC port; 0 lets the system choose")
  }

  package static func managementPort(default port: Int = 0) -> ConfigurationKey<Int> {
    .integer("management.port", default: port, in: 0...65535, help: "health and metrics port; 0 lets the system choose")
  }

  package static let portsFile = ConfigurationKey.optionalString(
    "portsFile",
    help: "file that receives the bound ports as JSON once the service listens"
  )
  package static let dataDirectory = ConfigurationKey.string(
    "dataDir",
    default: ".latchkey",
    help: "folder of the database and the keys"
  )
  package static let cell = ConfigurationKey.integer(
    "cell",
    default: 0,
    in: 0...65535,
    help: "number of the cell that this service and its database belong to, in every id that it makes; see Cells"
  )
  static let storageURLName = "storage.url"
  /// Nil for a file of the service's own in the data directory.
  package static let storageURL = ConfigurationKey<StorageLocation?>(
    storageURLName,
    default: .string(""),
    help: "where the rows are: sqlite:PATH, or postgresql://USER@HOST:PORT,HOST2:PORT/DATABASE; "
      + "default: a file in dataDir"
  ) { value throws(ConfigurationError) in
    guard case .string(let text) = value else { throw .invalidValue(key: storageURLName, reason: "must be text") }
    return text.isEmpty ? nil : try StorageLocation.parse(text)
  }
  package static let storagePasswordFile = ConfigurationKey.optionalString(
    "storage.passwordFile",
    help: "file with the password of storage.url's user; read at the start"
  )
  package static let storageSchema = ConfigurationKey<SchemaPreparation>.choice(
    "storage.schema",
    default: .apply,
    help: "who brings PostgreSQL's tables forward: apply (this service, at its start) or wait (latchkey admin schema "
      + "apply; until then the service is not ready)"
  )
  /// Nil for where the gRPC port listens.
  package static let instanceAddress = ConfigurationKey<Endpoint?>(
    "instanceAddress",
    default: .string(""),
    help: "host and port at which other instances of this service reach this one; default: listen.host and listen.port"
  ) { value throws(ConfigurationError) in
    guard case .string(let text) = value, text.isEmpty || Endpoint(text) != nil else {
      throw .invalidValue(key: "instanceAddress", reason: "must be a host and a port, such as qr-1.internal:7402")
    }
    return Endpoint(text)
  }
  package static let serviceTokenFile = ConfigurationKey.optionalString(
    "serviceTokenFile",
    help: "file with the services' shared secret; default: service-token in dataDir"
  )

  package static let certificateFile = ConfigurationKey.optionalString(
    "tls.certificateFile",
    help: "PEM chain that the gRPC port presents"
  )
  package static let keyFile = ConfigurationKey.optionalString(
    "tls.keyFile",
    help: "PEM key of that certificate, unencrypted"
  )
  package static let caFile = ConfigurationKey.optionalString(
    "tls.caFile",
    help: "PEM certificates that other services' certificates must chain to; set, they are called by TLS"
  )
  package static let serviceAuthentication = ConfigurationKey<ServiceAuthentication>.choice(
    "services.authentication",
    default: .token,
    help: "how services prove themselves to each other: token (serviceTokenFile) or certificate (mutual TLS)"
  )
  package static let callerCAFile = ConfigurationKey.optionalString(
    "tls.callerCaFile",
    help: "PEM certificates that calling services' certificates must chain to, for services.authentication certificate"
  )
  package static let clientCertificateFile = ConfigurationKey.optionalString(
    "tls.clientCertificateFile",
    help: "PEM chain that this service shows when it calls others; default: tls.certificateFile"
  )
  package static let clientKeyFile = ConfigurationKey.optionalString(
    "tls.clientKeyFile",
    help: "PEM key of that certificate, unencrypted"
  )
  package static let certificateNames = ConfigurationKey<CertificateNames>(
    "services.certificateNames",
    default: .strings(CertificateNames.standard),
    help: "who a service is by a name of its certificate (SAN): identity=NAME, qr=NAME or migrator=NAME"
  ) { value throws(ConfigurationError) in
    guard case .strings(let entries) = value, let names = CertificateNames(entries) else {
      throw .invalidValue(
        key: "services.certificateNames",
        reason: "must be entries such as qr=qr.internal, each name once, for identity, qr and migrator"
      )
    }
    return names
  }
  package static let insecureCleartext = ConfigurationKey.boolean(
    "insecureCleartext",
    default: false,
    help: "listen without TLS beyond loopback: only behind a proxy that terminates TLS"
  )

  package static let issuer = ConfigurationKey<String>(
    "issuer",
    default: .string("http://127.0.0.1:7401"),
    help: "issuer of access tokens (iss): identity's public address"
  ) { value throws(ConfigurationError) in
    // RFC 9068 section 2.2 and RFC 8414 section 2: a URL without query and fragment.
    guard case .string(let text) = value, text.hasPrefix("https://") || text.hasPrefix("http://"),
      !text.hasSuffix("//"), !text.contains(where: { $0.isWhitespace || $0 == "?" || $0 == "#" })
    else { throw .invalidValue(key: "issuer", reason: "must be a URL, such as https://id.example") }
    return text
  }
  package static let identityAddress = ConfigurationKey.endpoint(
    "identity.address",
    default: Endpoint(host: "127.0.0.1", port: 7401),
    help: "where the identity service listens"
  )
  package static let qrAddress = ConfigurationKey.endpoint(
    "qr.address",
    default: Endpoint(host: "127.0.0.1", port: 7402),
    help: "where the QR service listens"
  )
  package static let migratorAddress = ConfigurationKey.endpoint(
    "migrator.address",
    default: Endpoint(host: "127.0.0.1", port: 7403),
    help: "where the migrator listens"
  )

  package static let stepUpAge = ConfigurationKey.duration(
    "stepUp.maximumAge",
    default: .seconds(300),
    in: .seconds(10)...(.seconds(86_400)),
    help: "oldest proof of identity that may change who gets in; an older one is asked for again (StepUp)"
  )

  package static let proofNonces = ConfigurationKey.boolean(
    "dpop.nonces",
    default: false,
    help: "proofs of possession (DPoP) must hold a nonce of ours: none can be made in advance, at the price of a round "
      + "trip every few minutes; over PostgreSQL they always must"
  )

  package static let policyFile = ConfigurationKey.optionalString(
    "policyFile",
    help: "JSON file with gates, updates and networks, read again when it changes; default: policies.json in dataDir"
  )

  package static let logLevel = ConfigurationKey<Logger.Level>.choice(
    "log.level",
    default: .info,
    help: "least severe level that is logged"
  )
  package static let logFormat = ConfigurationKey<LogFormat>.choice(
    "log.format",
    default: .auto,
    help: "how events are logged: json, text, or auto for text at a terminal and json elsewhere"
  )
  package static let development = ConfigurationKey.boolean(
    "dev",
    default: false,
    help: "leave out the limits that one person's tests on one machine run into, unless they are set; on loopback only"
  )
  package static let drainTimeout = ConfigurationKey.duration(
    "drainTimeout",
    default: .seconds(20),
    in: .milliseconds(100)...(.seconds(300)),
    help: "how long running calls may take to finish after SIGTERM"
  )
  package static let keepaliveInterval = ConfigurationKey.duration(
    "keepalive.interval",
    default: RPCServer.Configuration.standardKeepalive.interval,
    in: .seconds(1)...(.seconds(7200)),
    help: "how long a client with a call open may be silent before it is asked for a sign of life"
  )
  package static let keepaliveTimeout = ConfigurationKey.duration(
    "keepalive.timeout",
    default: RPCServer.Configuration.standardKeepalive.timeout,
    in: .milliseconds(100)...(.seconds(600)),
    help: "how long it may take to give one before its connection and calls are given up"
  )
  package static let connectionLimit = ConfigurationKey.integer(
    "limits.connections",
    default: ServerBudget.Bounds().connections,
    in: 1...1_000_000,
    help: "connections to the gRPC port; when all are taken, the address that has most makes room for one that has less"
  )
  package static let callLimit = ConfigurationKey.integer(
    "limits.calls",
    default: ServerBudget.Bounds().calls,
    in: 1...10_000_000,
    help: "calls that may wait for something at once; beyond it, who has more than their share makes room for others"
  )
  package static let exemptNetworks = networks(
    "limits.exempt",
    help:
      "networks or addresses without rate limits and proofs of work, such as 127.0.0.1 for load tests; never proxies"
  )
  package static let trustedProxies = networks(
    "proxies.trusted",
    help: "networks or addresses of the proxies in front, which say whom they ask for: by the PROXY protocol, or by "
      + "proxies.field in each request"
  )
  package static let proxyField = ConfigurationKey<TrustedProxies.Field>.choice(
    "proxies.field",
    default: .forwardedFor,
    help: "where trusted proxies name the client of a request: x-forwarded-for, forwarded or none; they must write it "
      + "themselves, last"
  )
  package static let proxyHeaderRequired = ConfigurationKey.boolean(
    "proxies.requireProxyProtocol",
    default: false,
    help: "connections from trusted proxies must begin with the PROXY protocol; say so wherever the proxies send it"
  )

  private static func networks(_ name: String, help: String) -> ConfigurationKey<[NetworkRange]> {
    ConfigurationKey(name, default: .strings([]), help: help) { value throws(ConfigurationError) in
      guard case .strings(let texts) = value else { throw .invalidValue(key: name, reason: "must be a list of texts") }
      return try texts.map { text throws(ConfigurationError) in
        if let range = NetworkRange(networkOrAddress: text) { return range }
        throw .invalidValue(key: name, reason: "must be networks such as 10.0.0.0/8, or addresses; \(text) is neither")
      }
    }
  }

  package static let corsOrigins = ConfigurationKey<CORSPolicy>(
    "cors.origins",
    default: .strings([]),
    help: "web origins whose scripts may call by gRPC-Web and read pages, such as https://app.example; there is no *"
  ) { value throws(ConfigurationError) in
    guard case .strings(let origins) = value, let policy = CORSPolicy(allowing: origins) else {
      throw .invalidValue(
        key: "cors.origins",
        reason:
          "must be origins such as https://app.example or http://localhost:3000: lower case, without a path or \"*\""
      )
    }
    return policy
  }
  package static let compressResponses = ConfigurationKey.boolean(
    "grpc.compressResponses",
    default: false,
    help: "send responses of 1 KiB and more as gzip to clients that accept it: less traffic for more CPU time"
  )
  package static let threads = ConfigurationKey.integer(
    "threads",
    default: 0,
    in: 0...256,
    help:
      "event loops, and as many for addresses with many connections; 0 means one for each core that the service may use"
  )

  /// The declarations, with the ports that `service` has by default.
  static func declarations(for service: ServiceDescription) -> [ConfigurationDeclaration] {
    [
      listenHost.declaration, listenPort(default: service.port).declaration,
      managementHost.declaration, managementPort(default: service.managementPort).declaration,
      portsFile.declaration, dataDirectory.declaration, cell.declaration, storageURL.declaration,
      storagePasswordFile.declaration, storageSchema.declaration,
      instanceAddress.declaration, serviceTokenFile.declaration,
      certificateFile.declaration, keyFile.declaration, caFile.declaration, insecureCleartext.declaration,
      serviceAuthentication.declaration, callerCAFile.declaration, clientCertificateFile.declaration,
      clientKeyFile.declaration, certificateNames.declaration,
      issuer.declaration, identityAddress.declaration, qrAddress.declaration, migratorAddress.declaration,
      policyFile.declaration, proofNonces.declaration, stepUpAge.declaration,
      logLevel.declaration, logFormat.declaration, development.declaration, drainTimeout.declaration,
      keepaliveInterval.declaration, keepaliveTimeout.declaration,
      connectionLimit.declaration, callLimit.declaration,
      exemptNetworks.declaration, trustedProxies.declaration, proxyField.declaration, proxyHeaderRequired.declaration,
      corsOrigins.declaration, compressResponses.declaration, threads.declaration,
    ]
  }
}
