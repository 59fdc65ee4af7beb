import Cryptography
import Domain
import LatchkeyModel
import ServiceRuntime
import Storage
import StoragePostgreSQL
import StorageSQLite

/// The migrator as a process: its configuration, its storage, its routes and what runs beside them.
package enum MigratorProcess {
  package static let description = ServiceDescription(
    name: "latchkey-migrator", port: 7403, managementPort: 7503, keys: MigratorKeys().declarations,
    policies: MigratorAccess.policies
  )

  package static func make(_ resources: ServiceResources) async throws -> ServiceParts {
    let configuration = MigratorConfiguration(resources.configuration)
    // Publishes the keys of callers' tokens, and switches subjects.
    let identity = resources.channel(to: .identity)
    let storage: OpenedStorage<any MigrationStorage> = try await resources.openStorage(
      file: "migrator.db", sqlite: (MigrationSchema.schema, { SQLiteMigrationStorage($0) }),
      postgresql: (.migration, { PostgreSQLMigrationStorage($0) }))
    let keys = JWKSCache(identity: identity, logger: resources.logger)
    let core = MigrationCore(
      domain: MigrationDomain(storage.store, undoWindow: configuration.undoWindow),
      rules: configuration.collections,
      guestBounds: RecordBounds(
        records: configuration.guestRecords, bytes: configuration.guestMebibytes << 20,
        collections: Limits.collectionsPerSubject, guestTotal: configuration.guestTotalMebibytes << 20),
      accountBounds: RecordBounds(
        records: configuration.accountRecords,
        bytes: configuration.accountMebibytes << 20, collections: Limits.collectionsPerSubject),
      tokens: TokenAuthenticator(
        keys: keys, issuer: configuration.service[CommonKeys.issuer], audience: description.name,
        cell: resources.cells.identity, clock: resources.clock,
        sessions: resources.revocations),
      clock: resources.clock,
      random: RandomSource(in: resources.cells.own) { SecureRandom.bytes($0) },
      logger: resources.logger,
      meters: MigrationMeters(resources.metrics),
      instances: InstanceCount(storage.membership))
    let workers = MigrationWorkers(core, subjects: IdentitySubjectSwitch(channel: identity))

    var parts = ServiceParts(
      routes: MigratorRoutes.all(core), policies: MigratorAccess.policies, tokenKeys: .own(keys))
    parts.tasks = [
      BackgroundTask("identity keys") { await keys.run() },
      BackgroundTask("migrations") { await workers.run() },
      BackgroundTask("undo windows") { await UndoUpkeep(core).run() },
    ]
    parts.obstacle = {
      keys.current == nil ? "the keys of the identity service are not known yet" : storage.obstacle()
    }
    parts.drain = { core.signals.drain() }
    parts.close = storage.close
    parts.join(storage.membership)
    return parts
  }
}
