import LatchkeyModel

/// Migrations, by their ids, with their place in the queue until they are finished.
package protocol MigrationRows {
  func find(_ id: MigrationID) async throws(StorageError) -> StoredMigration?

  func lock(_ id: MigrationID) async throws(StorageError) -> StoredMigration?

  /// Those of the ids that there are, in any order.
  func all(_ ids: [MigrationID]) async throws(StorageError) -> [StoredMigration]

  /// The one that a plan became.
  func find(plan: PlanID) async throws(StorageError) -> MigrationID?

  func find(idempotencyKey: String, into target: SubjectID) async throws(StorageError) -> MigrationID?

  /// Those into `target`, at most `count`, the newest first, beyond `position`.
  func page(
    into target: SubjectID, beyond position: MigrationPosition?, count: Int
  ) async throws(StorageError) -> [Migration]

  /// Whether one into `target` is under way.
  func isTarget(_ target: SubjectID) async throws(StorageError) -> Bool

  /// Of those under way that nobody holds at `now` the one that is due for longest. What is held or put off to beyond
  /// `end` counts as due: the clock was set back.
  func lockDue(at now: Timestamp, unlessBeyond end: Timestamp) async throws(StorageError) -> StoredMigration?

  /// When the next of those under way is due that nobody holds by then.
  func nextDue() async throws(StorageError) -> Timestamp?

  /// One of which what taking back needs is being forgotten, or else the one whose time for that was over first at `now`.
  func findForgetting(at now: Timestamp) async throws(StorageError) -> StoredMigration?

  /// Those into `target` that can be taken back or are being taken back, the newest that was done first, and before them
  /// those that are not finished.
  func undoable(into target: SubjectID) async throws(StorageError) -> [StoredMigration]

  func insert(_ migration: StoredMigration) async throws(StorageError)

  /// Stores all of it but who, when and by which plan.
  func change(_ migration: StoredMigration) async throws(StorageError)

  /// Nobody holds any.
  func removeClaims() async throws(StorageError)

  /// None of those into `target` can be taken back any more.
  func removeUndo(into target: SubjectID) async throws(StorageError)
}

/// A migration and its place in the queue.
package struct StoredMigration: Sendable, Equatable {
  /// Who holds it, and until when.
  package struct Claim: Sendable, Equatable {
    package let holder: OpaqueIDValue
    package let until: Timestamp

    package init(holder: OpaqueIDValue, until: Timestamp) {
      self.holder = holder
      self.until = until
    }
  }

  package let plan: PlanID
  package let idempotencyKey: String
  package var migration: Migration
  /// When somebody may take it on.
  package var runAt: Timestamp
  package var claim: Claim?
  /// How often it was given back since it last moved on.
  package var failures: Int
  /// Why it was, the last time.
  package var hindrance: String?
  /// How often it was claimed.
  package var epoch: Int64
  /// It cannot be taken back any more, and rows that were kept for that are still there.
  package var isForgetting: Bool
  /// What taking back needs, as ``RecordBounds/cost(records:bytes:)`` counts it: what became of each record, what the
  /// account had there, and what the guest had.
  package var keptBytes: Int
  /// How often what became of its records was another thing, because a merge beneath it was taken back or it was begun
  /// again.
  package var relaid: Int64

  package init(
    plan: PlanID, idempotencyKey: String, migration: Migration, runAt: Timestamp, claim: Claim? = nil,
    failures: Int = 0, hindrance: String? = nil, epoch: Int64 = 0, isForgetting: Bool = false, keptBytes: Int = 0,
    relaid: Int64 = 0
  ) {
    self.plan = plan
    self.idempotencyKey = idempotencyKey
    self.migration = migration
    self.runAt = runAt
    self.claim = claim
    self.failures = failures
    self.hindrance = hindrance
    self.epoch = epoch
    self.isForgetting = isForgetting
    self.keptBytes = keptBytes
    self.relaid = relaid
  }
}

/// What happened to each collection of a guest, by migration and collection.
package protocol CollectionReportRows {
  /// In the order of collections.
  func all(of id: MigrationID) async throws(StorageError) -> [CollectionReport]

  func insert(_ reports: [CollectionReport], of id: MigrationID) async throws(StorageError)

  /// Stores the counts.
  func change(_ report: CollectionReport, of id: MigrationID) async throws(StorageError)

  func remove(_ collection: CollectionName, of id: MigrationID) async throws(StorageError)
}
