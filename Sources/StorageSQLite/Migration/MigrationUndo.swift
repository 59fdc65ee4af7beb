import LatchkeyModel
import Storage

/// Takes back what a migration merged, within the transaction that also stores the new state.
///
/// The account was not frozen meanwhile: a record that its owner changed since stays as they made it, except that what
/// the guest added to a sum is taken off again.
struct MigrationUndo {
  let db: SQLiteConnection

  private struct Merged {
    var name: RecordName
    var outcome: MergeOutcome
    /// That the account's record had when it was merged; nil when nothing was written.
    var revision: Int64?
    var old: RecordContent?
  }

  private static let selectMerged = """
    SELECT collection, key, outcome, revision, old_value, old_number, old_updated_at FROM migration_records
    WHERE migration = ? ORDER BY collection, key LIMIT ?
    """
  private static let deleteMerged = """
    DELETE FROM migration_records WHERE migration = ? AND collection = ? AND key = ?
    """
  private static let deleteRefused = "DELETE FROM refused_records WHERE migration = ?"
  private static let deleteReports = "DELETE FROM migration_collections WHERE migration = ?"
  private static let thaw = "UPDATE subjects SET migration = NULL WHERE sub = ? AND migration = ? AND is_migrated = 0"

  func undo(_ migration: inout Migration) throws(StorageError) -> Bool {
    let merged = try db.all(Self.selectMerged, .id(migration.id), .integer(Limits.applyRecords)) {
      row throws(StorageError) in
      Merged(
        name: RecordName(collection: try row.collection(0), key: try row.recordKey(1)), outcome: try row.named(2),
        revision: row.optionalInteger(3), old: row.isNull(4) ? nil : row.content(4))
    }
    // Gone with the last record, so they are there for each.
    let reports = try MigrationReports.collections(of: migration.id, in: db)
    let sums = Set(reports.filter { $0.policy == .sum }.map(\.collection))
    for one in merged {
      if let revision = one.revision {
        try takeBack(one, revision, isSum: sums.contains(one.name.collection), migration)
      }
      try db.execute(
        Self.deleteMerged, .id(migration.id), .name(one.name.collection), .key(one.name.key))
    }
    let isLast = merged.count < Limits.applyRecords
    if isLast {
      try db.execute(Self.deleteRefused, .id(migration.id))
      try db.execute(Self.deleteReports, .id(migration.id))
      try db.execute(Self.thaw, .id(migration.guest), .id(migration.id))
    }
    return migration.recordsUndone(isLast: isLast) != nil
  }

  private func takeBack(
    _ merged: Merged,
    _ revision: Int64,
    isSum: Bool,
    _ migration: Migration
  ) throws(StorageError) {
    let account = SubjectRecords(subject: migration.target, db: db)
    guard let current = try account.record(merged.name) else { return }
    if current.revision == revision {
      if let old = merged.old {
        try account.put([RecordDraft(name: merged.name, content: old)])
      } else {
        try account.delete(merged.name)
      }
    } else if isSum, merged.outcome == .summed,
      let guests = try SubjectRecords(subject: migration.guest, db: db).record(merged.name)
    {
      let (number, overflows) = current.content.number.subtractingReportingOverflow(guests.content.number)
      guard !overflows else { return }
      var content = current.content
      content.number = number
      try account.put([RecordDraft(name: merged.name, content: content)])
    }
  }
}
