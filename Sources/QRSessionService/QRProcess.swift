import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import Storage
import StoragePostgreSQL
import StorageSQLite
import TransportServer

/// The QR service as a process: its configuration, its storage, its routes and what runs beside them.
package enum QRProcess {
  package static let description = ServiceDescription(
    name: "latchkey-qr",
    port: 7402,
    managementPort: 7502,
    keys: QRKeys().declarations,
    development: QRKeys().development,
    identityCell: QRKeys.identityCell,
    policies: QRAccess.policies
  )

  package static func make(_ resources: ServiceResources) async throws -> ServiceParts {
    let configuration = QRConfiguration(resources.configuration)
    let storage: OpenedStorage<any QRSessionStore> = try await resources.openStorage(
      file: "qr.db", sqlite: (QRSchema.current, { SQLiteQRSessionStore(database: $0) }),
      postgresql: (.qr, { PostgreSQLQRSessionStore(database: $0) }))
    let geoFiles = configuration.riskGeoFiles
    let places = geoFiles.isEmpty ? nil : try GeoFile(paths: geoFiles, logger: resources.logger)
    let random = RandomSource(in: resources.cells.own) { SecureRandom.bytes($0) }
    var settings = try QRSettings(configuration)
    if let membership = storage.membership { settings.instance = membership.number }
    var shared: SharedSessions?
    if let store = storage.store as? any SharedQRSessionStore, let membership = storage.membership {
      shared = try await SharedSessions.open(
        store, others: MemberInstances(membership: membership, resources: resources),
        random: random)
      if configuration.verificationBase == nil {
        resources.logger.warning("without verification.base no other instance takes the codes that this one shows")
      }
    }
    let api = QRSessionAPI(
      settings: settings,
      store: storage.store,
      shared: shared,
      instances: InstanceCount(storage.membership),
      grants: IdentityGrantIssuer(channel: resources.channel(to: .identity)),
      places: places,
      followUpNotes: "\(configuration.service.dataDirectory)/latchkey-qr.follow-ups",
      clock: resources.clock,
      random: random.withNeighbouringIdentifiers(),
      audit: QRAudit(logger: resources.logger, metrics: resources.metrics),
      logger: resources.logger
    )
    try await api.load()

    let routes = QRV1.qrSessionServiceRoutes(api).map { route in
      guard route.method == QRV1.QrSessionServiceMethod.pollSession.rpc else { return route }
      return route.answeringDirectly { DirectPolls(api) }
    }
    var parts = ServiceParts(routes: routes + QRV1.instanceServiceRoutes(api), policies: QRAccess.policies)
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
    parts.obstacle = { storage.obstacle() ?? api.obstacle }
    parts.drain = { api.stopWaiting() }
    parts.close = storage.close
    parts.join(storage.membership)
    return parts
  }
}
