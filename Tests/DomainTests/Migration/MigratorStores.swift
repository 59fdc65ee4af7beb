import Domain
import LatchkeyModel
import Storage
import StorageMemory
import StoragePostgreSQL
import StorageSQLite
import TestSupport
import Testing

/// The engines that the migrator's rules are tried over.
enum MigratorEngine: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case memory
  case sqlite
  case postgresql

  var testDescription: String { rawValue }

  /// The rules are tried with a crash after each transaction in memory, and after every third one where the rows are far:
  /// what a transaction leaves there is the conformance suite's.
  var crashStride: Int { self == .memory ? 1 : 3 }

  /// Each engine leaves out others.
  var firstCrash: Int { self == .postgresql ? 1 : 0 }

  func openMigrator(
    in folder: TemporaryFolder, undoWindow: Duration = MigratorStores.undoWindow, undoBytes: Int? = nil,
    connections: Int = 2
  ) async throws -> MigratorStores {
    switch self {
    case .postgresql:
      let url = try PostgreSQLURL(try PostgreSQLServer.shared().database())
      return try await Self.openDatabase(
        url, undoWindow: undoWindow, undoBytes: undoBytes, connections: connections)
    case .memory: return MigratorStores(MemoryMigrationStorage(), undoWindow: undoWindow, undoBytes: undoBytes)
    case .sqlite: return try Self.openFile(at: folder.file("test.db"), undoWindow: undoWindow, undoBytes: undoBytes)
    }
  }

  static func openDatabase(
    _ url: PostgreSQLURL, undoWindow: Duration, undoBytes: Int? = nil, connections: Int = 2
  ) async throws(StorageError) -> MigratorStores {
    let database = try await PostgreSQLDatabase.open(
      url: url, schema: .migration, connections: connections, isPatient: true)
    return MigratorStores(
      PostgreSQLMigrationStorage(database), undoWindow: undoWindow, undoBytes: undoBytes,
      server: (url, database))
  }

  static func openFile(
    at path: String, undoWindow: Duration = MigratorStores.undoWindow, undoBytes: Int? = nil
  ) throws(StorageError) -> MigratorStores {
    let database = try SQLiteDatabase.open(path: path, schema: MigrationSchema.schema, isPatient: true)
    return MigratorStores(
      SQLiteMigrationStorage(database), undoWindow: undoWindow, undoBytes: undoBytes,
      file: MigratorStores.File(path: path, database: database))
  }
}

/// The migrator's rules over an engine, by the names of what is done.
struct MigratorStores: Sendable {
  static let undoWindow: Duration = .seconds(3600)

  let storage: any MigrationStorage
  let records: Records
  let migrations: Migrations
  private let undoWindow: Duration
  private let file: File?
  private let server: (url: PostgreSQLURL, database: PostgreSQLDatabase)?

  struct File: Sendable {
    let path: String
    let database: SQLiteDatabase
  }

  init(
    _ storage: any MigrationStorage, undoWindow: Duration, undoBytes: Int? = nil, file: File? = nil,
    server: (url: PostgreSQLURL, database: PostgreSQLDatabase)? = nil
  ) {
    self.storage = storage
    let domain = MigrationDomain(storage, undoWindow: undoWindow, undoBytes: undoBytes)
    records = Records(domain: domain)
    migrations = Migrations(domain: domain)
    (self.undoWindow, self.file, self.server) = (undoWindow, file, server)
  }

  /// As after a crash: what is stored is there, and nothing else. What an engine in memory holds outlives the rules over
  /// it, as a file outlives its process.
  func reopened() async throws -> MigratorStores {
    await close()
    if let server { return try await MigratorEngine.openDatabase(server.url, undoWindow: undoWindow) }
    guard let file else { return MigratorStores(storage, undoWindow: undoWindow) }
    return try MigratorEngine.openFile(at: file.path, undoWindow: undoWindow)
  }

  func close() async {
    await file?.database.close()
    await server?.database.close()
  }

  /// Changes rows as nobody does.
  func write(
    _ body: @escaping @Sendable (any MigrationTransaction) async throws(StorageError) -> Void
  ) async throws(StorageError) {
    try await storage.write(Work(body: body))
  }

  private struct Work: MigrationOperation {
    static var name: String { "test" }

    let body: @Sendable (any MigrationTransaction) async throws(StorageError) -> Void

    func run(in rows: some MigrationTransaction) async throws(StorageError) { try await body(rows) }
  }

  struct Records: Sendable {
    let domain: MigrationDomain

    func put(
      _ records: [RecordDraft], of subject: SubjectID,
      within bounds: RecordBounds = RecordBounds(records: .max, bytes: .max, collections: .max)
    ) async throws(StorageError) -> WriteOutcome<Int> {
      try await domain.perform(PutRecords(records, of: subject, within: bounds))
    }

    func heldByGuests() async throws(StorageError) -> Int { try await domain.look(CountGuestBytes()) }

    func record(_ name: RecordName, of subject: SubjectID) async throws(StorageError) -> Record? {
      try await domain.look(FindRecord(name, of: subject))
    }

    func records(
      in collection: CollectionName, of subject: SubjectID, beyond position: RecordPosition?, count: Int, bytes: Int
    ) async throws(StorageError) -> RecordPage {
      try await domain.look(
        ListRecords(in: collection, of: subject, beyond: position, count: count, bytes: bytes))
    }

    func delete(
      _ name: RecordName, revision: Int64?, of subject: SubjectID
    ) async throws(StorageError) -> WriteOutcome<DeleteRecord.Deletion> {
      try await domain.perform(DeleteRecord(name, revision: revision, of: subject))
    }

    func summary(of subject: SubjectID) async throws(StorageError) -> CountRecords.Summary {
      try await domain.look(CountRecords(of: subject))
    }

    func collections(of subject: SubjectID) async throws(StorageError) -> [CollectionCount] {
      try await summary(of: subject).collections
    }

    func purge(
      _ subject: SubjectID, limit: Int
    ) async throws(StorageError) -> WriteOutcome<PurgeRecords.Purged> {
      try await domain.perform(PurgeRecords(of: subject, limit: limit))
    }
  }

  struct Migrations: Sendable {
    let domain: MigrationDomain

    func plan(
      guest: SubjectID, target: SubjectID, rules: CollectionRules, isFirstLoginOnDevice: Bool
    ) async throws(StorageError) -> WriteOutcome<MigrationPlan> {
      try await domain.look(
        PlanMigration(guest: guest, target: target, rules: rules, isFirstLoginOnDevice: isFirstLoginOnDevice))
    }

    func save(
      _ plan: MigrationPlan, as id: PlanID, digest: [UInt8], at now: Timestamp, expiresAt: Timestamp
    ) async throws(StorageError) {
      try await domain.perform(SavePlan(plan, as: id, digest: digest, at: now, expiresAt: expiresAt))
    }

    func savedPlan(_ id: PlanID) async throws(StorageError) -> StoredPlan? { try await domain.look(FindPlan(id)) }

    func start(
      _ plan: PlanID, as id: MigrationID, idempotencyKey: String, at now: Timestamp
    ) async throws(StorageError) -> StartMigration.Outcome {
      try await domain.perform(StartMigration(plan, as: id, idempotencyKey: idempotencyKey, at: now))
    }

    func retry(_ id: MigrationID) async throws(StorageError) -> RetryMigration.Outcome {
      try await domain.perform(RetryMigration(id))
    }

    func migration(_ id: MigrationID) async throws(StorageError) -> FindMigration.Report? {
      try await domain.look(FindMigration(id))
    }

    func migrations(
      into target: SubjectID, beyond position: MigrationPosition?, count: Int
    ) async throws(StorageError) -> (migrations: [Migration], hasMore: Bool) {
      try await domain.look(ListMigrations(into: target, beyond: position, count: count))
    }

    func claim(_ lease: JobLease, at now: Timestamp) async throws(StorageError) -> ClaimMigration.Claimed? {
      try await domain.perform(ClaimMigration(lease, at: now))
    }

    func nextDue() async throws(StorageError) -> Timestamp? { try await domain.look(FindNextDue()) }

    func perform(
      _ action: Migration.Action, of id: MigrationID, lease: JobLease, at now: Timestamp
    ) async throws(StorageError) -> Migration? {
      try await domain.take(action, of: id, lease: lease, at: now)
    }

    func refuseSwitch(
      of id: MigrationID, reason: String, lease: JobLease, at now: Timestamp
    ) async throws(StorageError) -> Migration? {
      try await domain.perform(RefuseStep(.switch, of: id, reason: reason, lease: lease, at: now))
    }

    func refuseUndo(
      of id: MigrationID, reason: String, lease: JobLease, at now: Timestamp
    ) async throws(StorageError) -> Migration? {
      try await domain.perform(RefuseStep(.recall, of: id, reason: reason, lease: lease, at: now))
    }

    func release(_ id: MigrationID, lease: JobLease, until time: Timestamp) async throws(StorageError) {
      try await domain.perform(ReleaseMigration(id, lease: lease, until: time, because: .failed("away")))
    }

    func rest(_ id: MigrationID, lease: JobLease, at now: Timestamp) async throws(StorageError) {
      try await domain.perform(ReleaseMigration(id, lease: lease, until: now, because: .turnIsOver))
    }

    func releaseAll() async throws(StorageError) { try await domain.perform(ReleaseAll()) }

    func undo(_ id: MigrationID, at now: Timestamp) async throws(StorageError) -> UndoMigration.Outcome {
      try await domain.perform(UndoMigration(id, at: now))
    }

    func forgetUndo(at now: Timestamp, limit: Int) async throws(StorageError) -> Int {
      try await domain.perform(ForgetUndo(at: now, limit: limit))
    }

    func conflicts(
      of id: MigrationID, beyond name: RecordName?, count: Int, bytes: Int
    ) async throws(StorageError) -> (conflicts: [MigrationConflict], hasMore: Bool) {
      try await domain.look(ListConflicts(of: id, beyond: name, count: count, bytes: bytes))
    }

    func resolve(
      _ name: RecordName, of id: MigrationID, by policy: MigrationPolicy, revision: Int64?
    ) async throws(StorageError) -> ResolveConflict.Outcome {
      try await domain.perform(ResolveConflict(name, of: id, by: policy, revision: revision))
    }
  }
}
