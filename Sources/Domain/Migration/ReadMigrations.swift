import LatchkeyModel
import Storage

/// Where a migration stands, with what happened so far.
package struct FindMigration: MigrationOperation {
  package static let name = "find a migration"

  package var id: MigrationID

  package init(_ id: MigrationID) {
    self.id = id
  }

  package struct Report: Sendable, Equatable {
    package struct Collection: Sendable, Equatable {
      package let report: CollectionReport
      /// Records that the account holds now.
      package let targetCount: Int

      package init(report: CollectionReport, targetCount: Int) {
        self.report = report
        self.targetCount = targetCount
      }
    }

    package let migration: Migration
    /// In the order of their names.
    package let collections: [Collection]
    /// Why it did not move on when it was last tried.
    package let hindrance: String?
    /// How often it was claimed.
    package let epoch: Int64

    package init(migration: Migration, collections: [Collection], hindrance: String? = nil, epoch: Int64 = 0) {
      self.migration = migration
      self.collections = collections
      self.hindrance = hindrance
      self.epoch = epoch
    }
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> Report? {
    guard let stored = try await rows.migrations.find(id) else { return nil }
    let migration = stored.migration
    var collections: [Report.Collection] = []
    for report in try await rows.reports.all(of: id) {
      let count = try await rows.counts.find(report.collection, of: migration.target)
      collections.append(Report.Collection(report: report, targetCount: count))
    }
    return Report(
      migration: migration, collections: collections, hindrance: stored.hindrance, epoch: stored.epoch)
  }
}

/// Where several migrations stand, with their places in the queue; those that there are.
package struct FindStandings: MigrationOperation {
  package static let name = "find where migrations stand"

  package var ids: [MigrationID]

  package init(_ ids: [MigrationID]) {
    self.ids = ids
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> [MigrationID: StoredMigration] {
    var standings: [MigrationID: StoredMigration] = [:]
    for stored in try await rows.migrations.all(ids) { standings[stored.migration.id] = stored }
    return standings
  }
}

/// Migrations into an account, at most `count`, newest first, beyond `position`.
package struct ListMigrations: MigrationOperation {
  package static let name = "list migrations"

  package var target: SubjectID
  package var position: MigrationPosition?
  package var count: Int

  package init(into target: SubjectID, beyond position: MigrationPosition?, count: Int) {
    self.target = target
    self.position = position
    self.count = count
  }

  package func run(
    in rows: some MigrationTransaction
  ) async throws(StorageError) -> (migrations: [Migration], hasMore: Bool) {
    let found = try await rows.migrations.page(into: target, beyond: position, count: count + 1)
    return (Array(found.prefix(count)), found.count > count)
  }
}

/// The records that were set aside and not decided about, at most `count`, in the order of their names, beyond `place`.
/// They hold at most `bytes` together, except that there is at least one when there are any.
package struct ListConflicts: MigrationOperation {
  package static let name = "list conflicts"

  package var id: MigrationID
  package var place: RecordName?
  package var count: Int
  package var bytes: Int

  package init(of id: MigrationID, beyond place: RecordName?, count: Int, bytes: Int) {
    self.id = id
    self.place = place
    self.count = count
    self.bytes = bytes
  }

  package func run(
    in rows: some MigrationTransaction
  ) async throws(StorageError) -> (conflicts: [MigrationConflict], hasMore: Bool) {
    guard let migration = try await rows.migrations.find(id)?.migration else { return ([], false) }
    return try await rows.setAside.page(
      of: id, beyond: place, with: migration.target, count: count, bytes: bytes)
  }
}
