import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import Storage
import StoragePostgreSQL
import StorageSQLite
import Synchronization
import TestSupport
import Testing
import TransportClient
import TransportServer

@testable import MigrationService

/// The migrator on a free port, with its real storage in a temporary folder, and tokens of a key of the test's.
/// Identity's part of SWITCH is played by the test, so that it can fail.
struct MigratorHarness: Sendable {
  static let audience = "latchkey-migrator"
  static let issuer = "http://identity.test"

  let folder: TemporaryFolder
  let clock: TestClock
  let key: P256PrivateKey
  let switcher: ScriptedSwitch
  let sessions: EndableSessions
  /// Nil over PostgreSQL.
  let file: SQLiteDatabase?
  private let database: PostgreSQLDatabase?
  let core: MigrationCore
  let server: RPCServer
  let channel: ClientChannel
  let serviceToken: ServiceToken
  private let workers: Task<Void, Never>

  init(
    folder: TemporaryFolder? = nil,
    key: P256PrivateKey? = nil,
    clock: TestClock = TestClock(),
    switcher: ScriptedSwitch = ScriptedSwitch(),
    rules: CollectionRules = .standard,
    guestBounds: RecordBounds = Limits.guestBounds,
    accountBounds: RecordBounds = Limits.accountBounds,
    postgreSQL: String? = nil,
    isWorking: Bool = true
  ) async throws {
    let folder = try folder ?? TemporaryFolder()
    let key = try key ?? P256PrivateKey()
    let sessions = EndableSessions()
    let keys = JSONWebKeySet([key.publicKey])
    let tokens = TokenAuthenticator(
      keys: OwnKeys { keys }, issuer: Self.issuer, audience: Self.audience, clock: clock, sessions: sessions)
    let logger = Logger(label: "migrator-tests", factory: { _ in SwiftLogNoOpLogHandler() })
    let serviceToken = try #require(ServiceToken("lks_" + String(repeating: "A", count: 43)))
    let storage: any MigrationStorage
    if let postgreSQL {
      let opened = try await PostgreSQLDatabase.open(
        url: try PostgreSQLURL(postgreSQL), schema: .migration, connections: 3, isPatient: true)
      (file, database, storage) = (nil, opened, PostgreSQLMigrationStorage(opened))
    } else {
      let opened = try SQLiteDatabase.open(
        path: folder.file("test.db"), schema: MigrationSchema.schema, isPatient: true)
      (file, database, storage) = (opened, nil, SQLiteMigrationStorage(opened))
    }
    let core = MigrationCore(
      domain: MigrationDomain(storage, undoWindow: .seconds(3600)), rules: rules,
      guestBounds: guestBounds, accountBounds: accountBounds, tokens: tokens, clock: clock,
      random: RandomSource { SecureRandom.bytes($0) }, logger: logger)
    server = RPCServer(
      configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
      routes: MigratorRoutes.all(core),
      interceptors: [
        AuthenticationInterceptor(
          policies: MigratorAccess.policies, tokens: tokens, serviceToken: serviceToken, stepUp: StepUpPolicy())
      ],
      statusDetailsEncoder: { StatusDetails.encode($0) },
      logger: logger)
    let address = try await server.start()
    channel = ClientChannel(
      ClientChannel.Configuration(
        target: ChannelTarget(host: "127.0.0.1", port: address.port ?? 0),
        decodeDetails: { StatusDetails.decode($0) }))
    workers = Task {
      if isWorking {
        await MigrationWorkers(core, subjects: switcher).run()
      } else {
        await MigrationTail(core).run()
      }
    }
    (self.folder, self.clock, self.key, self.switcher) = (folder, clock, key, switcher)
    (self.core, self.serviceToken, self.sessions) = (core, serviceToken, sessions)
  }

  func stop() async {
    workers.cancel()
    await workers.value
    await channel.close(grace: .seconds(1))
    await server.shutDown()
    await file?.close()
    await database?.close()
  }

  /// Runs `body` against a fresh migrator and ends it.
  static func run(
    switcher: ScriptedSwitch = ScriptedSwitch(),
    rules: CollectionRules = .standard,
    guestBounds: RecordBounds = Limits.guestBounds,
    accountBounds: RecordBounds = Limits.accountBounds,
    _ body: (MigratorHarness) async throws -> Void
  ) async throws {
    let harness = try await MigratorHarness(
      switcher: switcher, rules: rules, guestBounds: guestBounds, accountBounds: accountBounds)
    do {
      try await body(harness)
    } catch {
      await harness.stop()
      throw error
    }
    await harness.stop()
  }

  // MARK: Who calls

  struct Person: Sendable {
    let id: SubjectID
    let isGuest: Bool
    let token: String

    var options: CallOptions { CallOptions(metadata: ["authorization": "Bearer \(token)"], timeout: .seconds(20)) }
  }

  func person(isGuest: Bool, audience: String = Self.audience, lifetime: Duration = .seconds(900)) throws -> Person {
    let id = SubjectID(from: core.random)
    let token = try token(of: id, isGuest: isGuest, audience: audience, lifetime: lifetime)
    return Person(id: id, isGuest: isGuest, token: token)
  }

  func token(
    of id: SubjectID, isGuest: Bool, audience: String = Self.audience, lifetime: Duration = .seconds(900),
    scope: String? = nil, session: SessionID? = nil
  ) throws -> String {
    let claims = AccessTokenClaims(
      subject: id.description, audience: [audience], issuer: Self.issuer, issuedAt: clock.now(),
      expiresAt: clock.now() + lifetime, tokenID: "\(id)", clientID: "app",
      scope: scope ?? (isGuest ? "basic" : "basic profile account"), sessionID: session?.description ?? "\(id)",
      authenticatedAt: clock.now(), isGuest: isGuest)
    return try AccessTokenSigner(key: key).sign(claims)
  }

  var service: CallOptions { CallOptions(metadata: serviceToken.metadata, timeout: .seconds(20)) }

  // MARK: Steps

  var migrations: MigrationV1.MigrationServiceClient { MigrationV1.MigrationServiceClient(channel: channel) }
  var records: MigrationV1.RecordServiceClient { MigrationV1.RecordServiceClient(channel: channel) }

  static func record(
    _ collection: String, _ key: String, _ value: String = "v", number: Int64 = 0, at seconds: Int64 = 1
  ) -> MigrationV1.Record {
    MigrationV1.Record(
      collection: collection, key: key, value: Array(value.utf8), number: number,
      updatedAt: GoogleProtobuf.Timestamp(seconds: seconds))
  }

  @discardableResult
  func put(_ records: [MigrationV1.Record], as person: Person) async throws -> Int64 {
    try await self.records.putRecords(options: person.options) { writer throws(RPCError) in
      try await writer.write(MigrationV1.PutRecordsRequest(records: records))
    }.written
  }

  func plan(
    _ guest: Person, into account: Person, overrides: [MigrationV1.PolicyOverride] = [], isFirst: Bool = false,
    options: CallOptions? = nil
  ) async throws -> MigrationV1.PlanMigrationResponse {
    try await migrations.planMigration(
      MigrationV1.PlanMigrationRequest(
        guestProof: guest.token, targetProof: account.token, policyOverrides: overrides, firstLoginOnDevice: isFirst),
      options: options ?? account.options)
  }

  func start(
    _ plan: MigrationV1.PlanMigrationResponse, key: String = "key", options: CallOptions
  ) async throws -> String {
    try await migrations.startMigration(
      MigrationV1.StartMigrationRequest(planID: plan.planID, digest: plan.digest, idempotencyKey: key),
      options: options
    ).migrationID
  }

  /// Watches to the end.
  func states(_ id: String, options: CallOptions) async throws -> [MigrationV1.Migration] {
    try await migrations.watchMigration(
      MigrationV1.WatchMigrationRequest(migrationID: id), options: options
    ) { responses throws(RPCError) in
      var states: [MigrationV1.Migration] = []
      for try await response in responses {
        if let migration = response.migration { states.append(migration) }
      }
      return states
    }
  }

  /// Plans, starts and waits for the end.
  func migrate(_ guest: Person, into account: Person) async throws -> MigrationV1.Migration {
    let plan = try await plan(guest, into: account)
    let id = try await start(plan, options: account.options)
    return try #require(try await states(id, options: account.options).last)
  }
}

/// Identity's part of SWITCH: notes who asked, and fails as often, or refuses as finally, as it is told to.
final class ScriptedSwitch: SubjectSwitch {
  private struct State {
    var failures: Int
    var refusal: RPCError?
    var isHeld = false
    var calls: [Migration] = []
    var told: [String] = []
    var keys: [String] = []
    var restored: [SubjectID] = []
  }

  private let state: Mutex<State>

  init(failures: Int = 0, refusal: RPCError? = nil) {
    state = Mutex(State(failures: failures, refusal: refusal))
  }

  var calls: [Migration] { state.withLock { $0.calls } }
  /// The guests that were to be guests again.
  var restored: [SubjectID] { state.withLock { $0.restored } }
  /// The reasons of migrations that were said to have failed.
  var told: [String] { state.withLock { $0.told } }
  /// What these were started with.
  var keys: [String] { state.withLock { $0.keys } }

  /// From now on identity does not answer.
  func hold() { state.withLock { $0.isHeld = true } }

  /// From now on identity answers again.
  func release() { state.withLock { $0.isHeld = false } }

  /// From now on identity agrees.
  func relent() { state.withLock { $0.refusal = nil } }

  private func fail() -> RPCError? {
    state.withLock { state in
      state.failures -= 1
      return state.failures >= 0 ? RPCError(.unavailable, "identity is away") : nil
    }
  }

  func complete(_ migration: Migration) async throws(RPCError) {
    state.withLock { $0.calls.append(migration) }
    while state.withLock({ $0.isHeld }) {
      do { try await Task.sleep(for: .milliseconds(5)) } catch { throw RPCError(.cancelled, "the call was cancelled") }
    }
    if let refusal = state.withLock({ $0.refusal }) { throw refusal }
    if let failure = fail() { throw failure }
  }

  /// What identity refuses is to be switched or restored.
  func refuse(_ refusal: RPCError) { state.withLock { $0.refusal = refusal } }

  func restore(_ migration: Migration) async throws(RPCError) {
    if let refusal = state.withLock({ $0.refusal }) { throw refusal }
    if let failure = fail() { throw failure }
    state.withLock { $0.restored.append(migration.guest) }
  }

  func fail(_ migration: Migration, startedWith key: String, reason: String) async throws(RPCError) {
    if let failure = fail() { throw failure }
    state.withLock { state in
      state.told.append(reason)
      state.keys.append(key)
    }
  }
}

/// A clock that goes on by itself from a time of the test's.
final class TestClock: WallClock {
  private let started = ContinuousClock.now
  private let ahead = Mutex(Duration.zero)

  func now() -> Timestamp {
    Timestamp(secondsSinceEpoch: 1_800_000_000) + (ContinuousClock.now - started) + ahead.withLock { $0 }
  }

  func advance(by duration: Duration) { ahead.withLock { $0 += duration } }
}

/// Expects that a call is refused with this code, reason and field.
@discardableResult
func expectRefusal<Value>(
  _ code: StatusCode,
  _ reason: String? = nil,
  field: String? = nil,
  sourceLocation: SourceLocation = #_sourceLocation,
  _ call: () async throws -> Value
) async -> RPCError? {
  do {
    let value = try await call()
    Issue.record("expected \(code) \(reason ?? ""), got \(value)", sourceLocation: sourceLocation)
  } catch let error as RPCError {
    #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
    if let reason { #expect(error.details.reason == reason, "\(error)", sourceLocation: sourceLocation) }
    if let field {
      #expect(error.details.fieldViolations.first?.field == field, "\(error)", sourceLocation: sourceLocation)
    }
    return error
  } catch {
    Issue.record("expected \(code) \(reason ?? ""), got \(error)", sourceLocation: sourceLocation)
  }
  return nil
}

/// Sessions that the test ends.
final class EndableSessions: SessionAuthority {
  private let ended = Mutex<Set<String>>([])

  func end(_ person: MigratorHarness.Person) { ended.withLock { _ = $0.insert("\(person.id)") } }

  func hasEnded(_ subject: AuthenticatedSubject) -> Bool { ended.withLock { $0.contains(subject.sessionID) } }
}
