import LatchkeyModel
import Storage

/// Deletes at most `limit` rows of a subject that was deleted, its records first, then what migrations keep for it, and
/// refuses every change of them from now on.
package struct PurgeRecords: MigrationCommand {
  package static let name = "purge records"

  package var subject: SubjectID
  package var limit: Int

  package init(of subject: SubjectID, limit: Int) {
    self.subject = subject
    self.limit = limit
  }

  /// What one step did.
  package struct Purged: Sendable, Equatable {
    /// Records that were removed; what migrations kept of them is not counted.
    package var count: Int
    /// Whether nothing is left.
    package var isLast: Bool

    package init(count: Int, isLast: Bool) {
      self.count = count
      self.isLast = isLast
    }
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> WriteOutcome<Purged> {
    var own = try await SubjectRecords(of: subject, in: rows)
    // Records on their way from here or to here would be made again by the migration's next step.
    if own.owner.migration != nil && !own.owner.isMigrated { return .migrating }
    if try await rows.migrations.isTarget(subject) { return .migrating }
    own.owner.isDeleted = true
    let count = try await rows.records.remove(of: subject, limit: limit)
    // What is set aside is the account's to look at, so it outlives its guest and goes with the account.
    var left = limit - count
    if left > 0 { left -= try await rows.moved.remove(into: subject, limit: left) }
    if left > 0 { left -= try await rows.setAside.remove(into: subject, limit: left) }
    if left > 0 { left -= try await rows.merged.remove(into: subject, limit: left) }
    if left > 0 {
      try await own.forgetCounts()
      try await rows.plans.removeWaiting(of: subject, into: nil)
      try await rows.migrations.removeUndo(into: subject)
    }
    try await own.finish()
    return .done(Purged(count: count, isLast: left > 0))
  }
}
