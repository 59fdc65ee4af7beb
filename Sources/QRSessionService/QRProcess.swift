import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import Storage
import StorageSQLite
import Transport

/// The QR service as a process: its configuration, its storage, its routes and what runs beside them.
package enum QRProcess {
  package static let description = ServiceDescription(
    name: "latchkey-qr",
    port: 7402,
    managementPort: 7502,
    keys: QRKeys.declarations,
    development: QRKeys.development
  )

  package static func make(_ resources: ServiceResources) async throws -> ServiceParts {
    let configuration = resources.configuration
    let path = "\(configuration.dataDirectory)/qr.db"
    let database = try SQLiteDatabase.open(path: path, schema: QRSchema.current)
    resources.metrics.observe(database, path: path)
    let geoFiles = configuration[QRKeys.riskGeoFiles]
    let places = geoFiles.isEmpty ? nil : try GeoFile(paths: geoFiles, logger: resources.logger)
    let api = QRSessionAPI(
      settings: try settings(configuration),
      store: SQLiteQRSessionStore(database: database),
      grants: IdentityGrantIssuer(channel: resources.channel(to: .identity)),
      places: places,
      clock: resources.clock,
      audit: QRAudit(logger: resources.logger, metrics: resources.metrics),
      logger: resources.logger
    )
    try await api.load()

    let routes = QRV1.qrSessionServiceRoutes(api).map { route in
      guard route.method == QRV1.QrSessionServiceMethod.pollSession.rpc else { return route }
      return route.answeringDirectly { DirectPolls(api) }
    }
    var parts = ServiceParts(routes: routes, policies: QRAccess.policies)
    let jwksURI = configuration[CommonKeys.issuer] + "/.well-known/jwks.json"
    parts.pages =
      SignInPage.pages
      + DeviceGrantPages(
        api: api, jwksURI: jwksURI, appVersions: AppVersionInterceptor(policies: resources.policies)
      ).pages
    if let client = configuration[QRKeys.signInClient], api.settings.clients?.contains(client) ?? true {
      parts.pages += ScreenPage.pages(ScreenCalls(api: api, client: client))
    }
    parts.tasks = [BackgroundTask("QR sessions") { await api.run() }]
    parts.reload = { places?.reload() }
    parts.obstacle = { database.obstacle }
    parts.drain = { api.stopWaiting() }
    parts.close = { await database.close() }
    return parts
  }

  static func settings(_ configuration: ServiceConfiguration) throws -> QRSettings {
    var settings = QRSettings(
      verificationBase: try verificationBase(configuration),
      clients: configuration[QRKeys.clients].map(Set.init)
    )
    settings.trustedInitiators = TrustedInitiators(configuration[QRKeys.trustedInitiators])
    settings.clientNames = configuration[QRKeys.clientNames]
    settings.clientsWithoutPKCE = configuration[QRKeys.clientsWithoutPKCE]
    settings.instance = UInt16(configuration[QRKeys.instance])
    settings.lifetime = configuration[QRKeys.lifetime]
    settings.interval = configuration[QRKeys.pollInterval]
    settings.longPollInterval = configuration[QRKeys.longPollInterval]
    let age = configuration[QRKeys.maximumAuthenticationAge]
    settings.confirm.maximumAuthenticationAge = age > .zero ? age : nil
    settings.confirm.stepUpAge = configuration[QRKeys.stepUpAge]
    settings.stepUp = StepUpPolicy(maximumAge: configuration[CommonKeys.stepUpAge])
    settings.checkCode = configuration[QRKeys.checkCode]
    settings.risk = QRRiskPolicy(rules: configuration[QRKeys.riskRules], stepUp: configuration[QRKeys.riskStepUp])
    settings.farKilometres = configuration[QRKeys.riskFarKilometres]
    settings.issueRate = rate(configuration[QRKeys.issuesPerMinute])
    let outstanding = configuration[QRKeys.outstandingCodes]
    settings.outstandingCodes = outstanding > 0 && settings.issueRate != nil ? outstanding : nil
    settings.exempt = configuration[CommonKeys.exemptNetworks]
    settings.scanRate = rate(configuration[QRKeys.scansPerMinute])
    settings.decisionRate = rate(configuration[QRKeys.decisionsPerMinute])
    return settings
  }

  private static func rate(_ perMinute: Int) -> Rate? {
    perMinute > 0 ? Rate(perMinute, per: .seconds(60)) : nil
  }

  /// As configured, or where this service listens, which is right for one machine.
  private static func verificationBase(_ configuration: ServiceConfiguration) throws -> QRVerificationBase {
    if let base = configuration[QRKeys.verificationBase] { return base }
    let scheme = configuration.certificateFiles == nil ? "http" : "https"
    let endpoint = configuration.listen.port == 0 ? configuration[CommonKeys.qrAddress] : configuration.listen
    guard let base = QRVerificationBase("\(scheme)://\(endpoint)") else {
      throw StartupError("verification.base must be set: \(endpoint) is no address to put into a code", exitStatus: 78)
    }
    return base
  }
}
