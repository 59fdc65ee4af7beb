import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import Storage
import StorageSQLite
import Transfers
import Transport

/// The identity service as a process: its configuration, its storage, its routes and what runs beside them.
package enum IdentityProcess {
  package static let description = ServiceDescription(
    name: "latchkey-identity",
    port: 7401,
    managementPort: 7501,
    keys: IdentityKeys().declarations
  )

  package static func make(_ resources: ServiceResources) async throws -> ServiceParts {
    let configuration = IdentityConfiguration(resources.configuration)
    try configuration.check()
    let path = "\(configuration.service.dataDirectory)/identity.db"
    let database = try SQLiteDatabase.open(path: path, schema: .identity)
    resources.metrics.observe(database, path: path)
    let passwords = PasswordHasher(
      parameters: Argon2Parameters(
        memoryKiB: UInt32(configuration.passwordMemoryKiB),
        passes: UInt32(configuration.passwordPasses),
        lanes: 1
      ),
      threads: configuration.passwordThreads
    )
    let random = RandomSource { SecureRandom.bytes($0) }
    let transfers = TransferClient(threads: Limits.codeDeliveries)
    // Of its own: providers' keys do not wait behind mails.
    let federation = TransferClient(threads: Limits.keyFetches)
    let sinks = CodeSinks(configuration: configuration, transfers: transfers, clock: resources.clock, random: random)
    let providers = try configuration.providersFile.map { try OpenIDProvider.read($0) } ?? []
    let core = try await IdentityCore.assemble(
      database: database,
      dataDirectory: configuration.service.dataDirectory,
      issuer: configuration.service[CommonKeys.issuer],
      audiences: [description.name] + configuration.audiences.filter { $0 != description.name },
      lifetimes: configuration.tokenLifetimes,
      signingKeyPeriod: configuration.signingKeyPeriod,
      guestsPerHour: configuration.guestsPerHour,
      codesPerHour: configuration.codesPerHour,
      codesRequired: configuration.codesRequired,
      registrationsPerHour: configuration.registrationsPerHour,
      signInsPerHour: configuration.signInsPerHour,
      exempt: configuration.service[CommonKeys.exemptNetworks],
      codeSink: try sinks.make(),
      guestRetention: configuration.guestRetention,
      guestLimit: configuration.guestLimit,
      auditRefusals: configuration.auditRefusals,
      auditRetention: configuration.auditRetention == .zero ? nil : configuration.auditRetention,
      cookieDomain: configuration.cookieDomain,
      providers: OpenIDProviders(providers, logger: resources.logger) { request throws(TransferError) in
        try await federation.send(request)
      },
      proofs: resources.proofs,
      stepUp: StepUpPolicy(maximumAge: configuration.service[CommonKeys.stepUpAge]),
      passwords: passwords,
      migrator: resources.channel(to: .migrator),
      policies: resources.policies,
      guidesFile: configuration.guidesFile,
      clock: resources.clock,
      random: random.withNeighbouringIdentifiers(),
      logger: resources.logger
    )
    if configuration.rotateSigningKey {
      let next = try core.tokens.keys.rotate()
      core.logger.notice("the next signing key is published", metadata: ["kid": "\(next.id)"])
    }

    var parts = ServiceParts(
      routes: routes(core),
      policies: IdentityAccess.policies,
      tokenKeys: .own(OwnKeys { core.tokens.keys.published })
    )
    parts.sessions = core.endedSessions
    parts.observers = [core.refusals]
    parts.pages = [JWKSPage.make(core.tokens.keys), core.webSessionPage.page]
    parts.tasks = Upkeep(core).tasks
    parts.obstacle = { database.obstacle }
    parts.drain = {
      core.sessionEvents.drain()
      core.endedSessions.watches.drain()
      core.guideWatches.drain()
    }
    parts.close = {
      await core.refusals.flush()
      passwords.stop()
      transfers.stop()
      federation.stop()
      await database.close()
    }
    return parts
  }

  package static func routes(_ core: IdentityCore) -> [RPCRoute] {
    IdentityV1.guestServiceRoutes(core.guestHandlers)
      + IdentityV1.authServiceRoutes(AuthHandlers(core))
      + IdentityV1.grantServiceRoutes(core.grantRoom)
      + IdentityV1.sessionServiceRoutes(core.sessionRoom)
      + IdentityV1.deviceServiceRoutes(core.deviceRoom)
      + IdentityV1.transferServiceRoutes(core.transferRoom)
      + IdentityV1.linkServiceRoutes(core.linkRoom)
      + IdentityV1.accountServiceRoutes(core.accountRoom)
      + IdentityV1.guideServiceRoutes(core.guideRoom)
      + IdentityV1.policyServiceRoutes(core.policyRoom)
      + IdentityV1.adminServiceRoutes(core.adminRoom).map { route in
        var route = route
        if route.method == IdentityV1.AdminServiceMethod.setDocument.rpc {
          route.messageLimit = Limits.documentMessageBytes
        }
        return route
      }
      + IdentityV1.auditServiceRoutes(core.auditRoom)
  }
}
