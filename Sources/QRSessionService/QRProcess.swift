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
    keys: QRKeys().declarations,
    development: QRKeys().development,
    policies: QRAccess.policies
  )

  package static func make(_ resources: ServiceResources) async throws -> ServiceParts {
    let configuration = QRConfiguration(resources.configuration)
    let path = "\(configuration.service.dataDirectory)/qr.db"
    let database = try SQLiteDatabase.open(path: path, schema: QRSchema.current)
    resources.metrics.observe(database, path: path)
    let geoFiles = configuration.riskGeoFiles
    let places = geoFiles.isEmpty ? nil : try GeoFile(paths: geoFiles, logger: resources.logger)
    let api = QRSessionAPI(
      settings: try QRSettings(configuration),
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
    let jwksURI = configuration.service[CommonKeys.issuer] + "/.well-known/jwks.json"
    parts.pages =
      SignInPage.pages
      + DeviceGrantPages(
        api: api, jwksURI: jwksURI, appVersions: AppVersionInterceptor(policies: resources.policies)
      ).pages
    if let client = configuration.signInClient, api.settings.clients?.contains(client) ?? true {
      parts.pages += ScreenPage.pages(ScreenCalls(api: api, client: client))
    }
    parts.tasks = [BackgroundTask("QR sessions") { await api.run() }]
    parts.reload = { places?.reload() }
    parts.obstacle = { database.obstacle }
    parts.drain = { api.stopWaiting() }
    parts.close = { await database.close() }
    return parts
  }
}
