import LatchkeyModel
import Storage
import TestSupport
import Testing

/// An engine of the migrator's rows with nothing in it, and what a test writes there.
struct MigrationStore {
  let folder: TemporaryFolder
  let storage: any MigrationStorage

  init(_ engine: Engine) async throws {
    folder = try TemporaryFolder()
    storage = try await engine.openMigrations(in: folder)
  }

  /// Runs `body` as one change.
  func write<Value: Sendable>(
    _ body: @escaping @Sendable (any MigrationTransaction) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await storage.write(Work(body: body))
  }

  func read<Value: Sendable>(
    _ body: @escaping @Sendable (any MigrationTransaction) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await storage.read(Work(body: body))
  }

  private struct Work<Value: Sendable>: MigrationOperation {
    static var name: String { "test" }

    let body: @Sendable (any MigrationTransaction) async throws(StorageError) -> Value

    func run(in rows: some MigrationTransaction) async throws(StorageError) -> Value { try await body(rows) }
  }

  /// What `body` fails with, and that nothing of what it wrote is stored.
  func expectFailure(
    _ isExpected: (StorageError) -> Bool,
    _ body: @escaping @Sendable (any MigrationTransaction) async throws(StorageError) -> Void
  ) async throws {
    let subject: SubjectID = Sample.id(250)
    let error = await #expect(throws: StorageError.self) {
      try await write { rows throws(StorageError) in
        try await rows.owners.put(RecordOwner(), subject)
        try await body(rows)
      }
    }
    #expect(error.map(isExpected) == true)
    #expect(try await read { rows throws(StorageError) in try await rows.owners.find(subject) } == nil)
  }
}

extension Sample {
  static func name(_ key: String, in collection: String = "cart") throws -> RecordName {
    RecordName(collection: try #require(CollectionName(collection)), key: try #require(RecordKey(key)))
  }

  static func content(_ bytes: Int = 3, number: Int64 = 1, at milliseconds: Int64 = 0) -> RecordContent {
    RecordContent(
      value: [UInt8](repeating: 7, count: bytes), number: number,
      updatedAt: Timestamp(millisecondsSinceEpoch: milliseconds))
  }

  static func record(
    _ name: RecordName, _ content: RecordContent = content(), revision: Int64 = 1, isNew: Bool = true
  ) -> RecordWrite {
    RecordWrite(draft: RecordDraft(name: name, content: content), revision: revision, isNew: isNew)
  }

  static func plan(_ number: UInt8, of guest: UInt8 = 1, into target: UInt8 = 2, expiry: Timestamp = now) -> StoredPlan
  {
    StoredPlan(
      id: id(number), guest: id(guest), target: id(target), digest: [number, 1], guestVersion: 5, targetVersion: 6,
      expiresAt: expiry)
  }

  static func migration(
    _ number: UInt8, of guest: UInt8 = 1, into target: UInt8 = 2, key: String = "k", at created: Timestamp = now,
    state: Migration.State = .counting, undoUntil: Timestamp? = nil
  ) -> StoredMigration {
    StoredMigration(
      plan: id(number), idempotencyKey: key,
      migration: Migration(
        id: id(number), guest: id(guest), target: id(target), createdAt: created, state: state, done: 3, total: 4,
        undoUntil: undoUntil),
      runAt: created)
  }
}

extension MigrationTransaction {
  /// With its plan, which is one that was started.
  func insert(_ stored: StoredMigration) async throws(StorageError) {
    let migration = stored.migration
    try await plans.insert(
      StoredPlan(
        id: stored.plan, guest: migration.guest, target: migration.target, digest: [], guestVersion: 0,
        targetVersion: 0, expiresAt: Sample.now),
      rules: [:])
    try await plans.changeStarted(stored.plan)
    try await migrations.insert(stored)
  }
}
