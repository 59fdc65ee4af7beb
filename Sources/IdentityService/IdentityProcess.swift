import Callers
import Cryptography
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage
import StoragePostgreSQL
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
    try configuration.requireMountedSecrets()
    let storage: OpenedStorage<any IdentityStorage> = try await resources.openStorage(
      file: "identity.db", sqlite: (.identity, { SQLiteIdentityStorage($0) }),
      postgresql: (.identity, { PostgreSQLIdentityStorage($0) }))
    let passwords = PasswordHasher(
      parameters: configuration.hashing, threads: configuration.passwordThreads,
      holder: { CallPlace.current?.holder?.number })
    let random = RandomSource(in: resources.cells.own) { SecureRandom.bytes($0) }
    let transfers = TransferClient(threads: Limits.codeDeliveries)
    // Of its own: providers' keys do not wait behind mails.
    let federation = TransferClient(threads: Limits.keyFetches)
    let sinks = CodeSinks(configuration: configuration, transfers: transfers, clock: resources.clock, random: random)
    let providers = try configuration.providersFile.map { try OpenIDProvider.read($0) } ?? []
    let rooms = try await IdentityRooms(
      configuration,
      IdentityResources(
        storage: storage.store,
        membership: storage.membership,
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
    let (keys, audit) = (rooms.auth.tokens.keys, rooms.upkeep.audit)
    if configuration.rotateSigningKey {
      let next = try await keys.rotate()
      resources.logger.notice("the next signing key is published", metadata: ["kid": "\(next.id)"])
    }

    var parts = ServiceParts(
      routes: rooms.routes, policies: IdentityAccess.policies, tokenKeys: .own(OwnKeys { keys.published }))
    parts.sessions = rooms.sessions.endedSessions
    parts.observers = [audit.refusals]
    parts.pages = rooms.pages
    parts.tasks = rooms.upkeep.tasks
    parts.obstacle = { [endedSessions = rooms.sessions.endedSessions] in
      storage.obstacle() ?? endedSessions.obstacle ?? keys.obstacle
    }
    parts.drain = { rooms.drain() }
    parts.close = {
      await audit.refusals.flush()
      await audit.sealing.seal()
      passwords.stop()
      transfers.stop()
      federation.stop()
      await storage.close()
    }
    parts.join(storage.membership)
    return parts
  }
}
