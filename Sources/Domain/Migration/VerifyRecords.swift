import LatchkeyModel
import Storage

/// Recounts a guest's records against what became of each, a stretch of their names after the other.
struct MigrationCheck: Sendable {
  /// How often what became of the records had changed by the first stretch.
  private var relaid: Int64 = 0
  /// The last name of the stretch before.
  private var place: RecordName?
  private(set) var isOver = false
  /// What is wrong; nil when every record is accounted for exactly once.
  private(set) var problem: String?
  /// What became of the records so far: a few numbers for each collection.
  private var outcomes: [CollectionName: [MergeOutcome: Int]] = [:]

  func ended(_ problem: String? = nil) -> MigrationCheck {
    var check = self
    (check.isOver, check.problem) = (true, problem)
    return check
  }

  /// The check after the next stretch.
  func next(
    of stored: StoredMigration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> MigrationCheck {
    guard relaid == stored.relaid else {
      // Another merge was taken back in between: what was counted before may be another thing now.
      var anew = MigrationCheck()
      anew.relaid = stored.relaid
      return try await anew.next(of: stored, in: rows)
    }
    let migration = stored.migration
    let recount = try await rows.merged.recount(
      migration.id, of: migration.guest, beyond: place, count: Limits.verifyRecords)
    if recount.unmerged > 0 { return ended("\(recount.unmerged) records were not merged") }
    if recount.foreign > 0 { return ended("\(recount.foreign) records were merged that the guest does not have") }
    if recount.lost > 0 { return ended("a refused record was not set aside") }
    var check = self
    for (collection, counts) in recount.outcomes {
      check.outcomes[collection, default: [:]].merge(counts) { $0 + $1 }
    }
    guard let end = recount.end else {
      return ended(check.wrongCount(of: migration, try await rows.reports.all(of: migration.id)))
    }
    check.place = end
    return check
  }

  /// Each record has its outcome; the counts that are told must be the same.
  private func wrongCount(of migration: Migration, _ reports: [CollectionReport]) -> String? {
    for report in reports {
      if !report.isComplete { return "\(report.collection): \(report.total) of \(report.sourceCount) were counted" }
      if report.counts != outcomes[report.collection] ?? [:] { return "\(report.collection): the counts differ" }
    }
    return migration.done == migration.total ? nil : "\(migration.done) of \(migration.total) records were merged"
  }
}

/// Looks at some thousand records more of a migration that is verified.
struct CheckStretch: MigrationOperation {
  static let name = "verify a migration"

  let id: MigrationID
  let check: MigrationCheck

  init(_ id: MigrationID, after check: MigrationCheck) {
    self.id = id
    self.check = check
  }

  /// Nil when the migration stands elsewhere: nothing was looked at, so nothing is known to be right.
  func run(in rows: some MigrationTransaction) async throws(StorageError) -> MigrationCheck? {
    guard let stored = try await rows.migrations.find(id), stored.migration.action == .verify else { return nil }
    return try await check.next(of: stored, in: rows)
  }
}
