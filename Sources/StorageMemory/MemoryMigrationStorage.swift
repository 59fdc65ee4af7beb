import LatchkeyModel
import Storage

/// The migrator's rows in memory, gone when the process ends: for tests and simulation. Operations run one after the
/// other, as in ``MemoryIdentityStorage``.
package actor MemoryMigrationStorage: MigrationStorage {
  private let tables = MemoryMigrationTables()

  package nonisolated var isShared: Bool { false }

  package init() {}

  package func write<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    do throws(StorageError) {
      let outcome = try await operation.run(in: MemoryMigrationTransaction(tables: tables))
      tables.commit()
      return outcome
    } catch {
      tables.rollBack()
      throw error
    }
  }

  package func read<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await operation.run(in: MemoryMigrationTransaction(tables: tables))
  }
}

/// All tables, of which the transaction that runs is the only user.
final class MemoryMigrationTables {
  struct PlanRow: Sendable {
    var plan: StoredPlan
    var rules: [CollectionName: CollectionRules.Rule]
    var isStarted = false
  }

  struct KeptRow: Sendable {
    var content: RecordContent
    var reason: ConflictReason
  }

  var owners = MemoryTable<SubjectID, RecordOwner>()
  var counts = MemoryOrderedTable<SubjectID, CollectionName, Int>()
  var records = MemoryOrderedTable<SubjectID, RecordName, RecordLayers.Held>()
  var plans = MemoryTable<PlanID, PlanRow>()
  var migrations = MemoryTable<MigrationID, StoredMigration>()
  var reports = MemoryOrderedTable<MigrationID, CollectionName, CollectionReport>()
  var merged = MemoryOrderedTable<MigrationID, RecordName, MergedRecord>()
  var setAside = MemoryOrderedTable<MigrationID, RecordName, KeptRow>()
  var moved = MemoryOrderedTable<MigrationID, RecordName, RecordContent>()

  /// Of migrations into an account, in any order.
  func into(_ account: SubjectID) -> [StoredMigration] {
    migrations.rows.values.filter { $0.migration.target == account }
  }

  func commit() {
    owners.commit()
    counts.commit()
    records.commit()
    plans.commit()
    migrations.commit()
    reports.commit()
    merged.commit()
    setAside.commit()
    moved.commit()
  }

  func rollBack() {
    owners.rollBack()
    counts.rollBack()
    records.rollBack()
    plans.rollBack()
    migrations.rollBack()
    reports.rollBack()
    merged.rollBack()
    setAside.rollBack()
    moved.rollBack()
  }
}

/// The transaction that runs.
struct MemoryMigrationTransaction: MigrationTransaction {
  let tables: MemoryMigrationTables

  var owners: MemoryOwners { MemoryOwners(tables: tables) }
  var counts: MemoryCounts { MemoryCounts(tables: tables) }
  var records: MemoryRecords { MemoryRecords(tables: tables) }
  var plans: MemoryPlans { MemoryPlans(tables: tables) }
  var migrations: MemoryMigrations { MemoryMigrations(tables: tables) }
  var reports: MemoryReports { MemoryReports(tables: tables) }
  var merged: MemoryMerged { MemoryMerged(tables: tables) }
  var setAside: MemorySetAside { MemorySetAside(tables: tables) }
  var moved: MemoryMoved { MemoryMoved(tables: tables) }
}
