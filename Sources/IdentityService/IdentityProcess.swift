import Cryptography
import LatchkeyModel
import Logging
import ServiceRuntime
import StorageSQLite
import Transfers

/// The identity service as a process, in the order in which it starts.
package enum IdentityProcess {
  package static let description = ServiceDescription(
    name: "latchkey-identity", port: 7401, managementPort: 7501, keys: IdentityKeys().declarations,
    policies: IdentityAccess.policies
  )

  package static func make(_ resources: ServiceResources) async throws -> ServiceParts {
    let configuration = IdentityConfiguration(resources.configuration)
    try configuration.check()
    let path = "\(configuration.service.dataDirectory)/identity.db"
    let database = try SQLiteDatabase.open(path: path, schema: .identity)
    resources.metrics.observe(database, path: path)
    let passwords = PasswordHasher(parameters: configuration.hashing, threads: configuration.passwordThreads)
    let random = RandomSource { SecureRandom.bytes($0) }
    let transfers = TransferClient(threads: Limits.codeDeliveries)
    // Of its own: providers' keys do not wait behind mails.
    let federation = TransferClient(threads: Limits.keyFetches)
    let sinks = CodeSinks(configuration: configuration, transfers: transfers, clock: resources.clock, random: random)
    let providers = try configuration.providersFile.map { try OpenIDProvider.read($0) } ?? []
    let rooms = try await IdentityRooms(
      configuration,
      IdentityResources(
        database: database,
        passwords: passwords,
        codeSink: try sinks.make(),
        providers: OpenIDProviders(providers, logger: resources.logger) { request throws(TransferError) in
          try await federation.send(request)
        },
        proofs: resources.proofs,
        migrator: resources.channel(to: .migrator),
        policies: resources.policies,
        surroundings: Surroundings(
          clock: resources.clock, random: random.withNeighbouringIdentifiers(), logger: resources.logger)
      )
    )
    let (keys, refusals) = (rooms.auth.tokens.keys, rooms.upkeep.audit.refusals)
    if configuration.rotateSigningKey {
      let next = try keys.rotate()
      resources.logger.notice("the next signing key is published", metadata: ["kid": "\(next.id)"])
    }

    var parts = ServiceParts(
      routes: rooms.routes, policies: IdentityAccess.policies, tokenKeys: .own(OwnKeys { keys.published }))
    parts.sessions = rooms.sessions.endedSessions
    parts.observers = [refusals]
    parts.pages = rooms.pages
    parts.tasks = rooms.upkeep.tasks
    parts.obstacle = { database.obstacle }
    parts.drain = { rooms.drain() }
    parts.close = {
      await refusals.flush()
      passwords.stop()
      transfers.stop()
      federation.stop()
      await database.close()
    }
    return parts
  }
}
