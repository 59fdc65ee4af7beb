import LatchkeyModel
import Storage

/// Takes back what a migration did, within the transaction that also stores the new state.
///
/// The account was not frozen meanwhile: a record that its owner changed since stays as they made it, except that what
/// the guest added to a sum is taken off again.
struct MigrationUndo {
  let db: SQLiteConnection
  let now: Timestamp

  private struct Merged {
    var name: RecordName
    /// Where the account has it.
    var targetName: RecordName
    var outcome: MergeOutcome
    /// By which somebody decided; nil for the collection's.
    var policy: MigrationPolicy?
    /// That the account's record had when it was merged; nil when nothing was written.
    var revision: Int64?
    var old: RecordContent?
  }

  private static let selectMerged = """
    SELECT collection, key, outcome, revision, old_value, old_number, old_updated_at, target_key, policy
    FROM migration_records WHERE migration = ? ORDER BY collection, key LIMIT ?
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
      let name = RecordName(collection: try row.collection(0), key: try row.recordKey(1))
      return Merged(
        name: name,
        targetName: row.isNull(7) ? name : RecordName(collection: name.collection, key: try row.recordKey(7)),
        outcome: try row.named(2), policy: row.isNull(8) ? nil : try row.named(8), revision: row.optionalInteger(3),
        old: row.isNull(4) ? nil : row.content(4))
    }
    // Gone with the last record, so they are there for each.
    let reports = try MigrationReports.collections(of: migration.id, in: db)
    let sums = Set(reports.filter { $0.policy == .sum }.map(\.collection))
    for one in merged {
      if let revision = one.revision {
        let isSum = one.policy.map { $0 == .sum } ?? sums.contains(one.name.collection)
        try takeBack(one, revision, isSum: isSum, migration)
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
    return migration.recordsUndone(isLast: isLast, at: now)
  }

  // MARK: Giving back

  private static let setMigrated = "UPDATE subjects SET is_migrated = ? WHERE sub = ? AND migration = ?"

  /// Whether the guest's records are the account's, for good as far as anybody can tell, or on their way.
  func mark(_ migration: Migration, isMigrated: Bool) throws(StorageError) {
    let count = try db.execute(
      Self.setMigrated, .boolean(isMigrated), .id(migration.guest), .id(migration.id))
    guard count == 1 else {
      throw StorageError(.corrupt, operation: "undo", detail: "the guest is not frozen by its migration")
    }
  }

  private static let selectMoved = """
    SELECT collection, key, value, number, updated_at FROM moved_records
    WHERE migration = ? ORDER BY collection, key LIMIT ?
    """
  private static let deleteMoved = "DELETE FROM moved_records WHERE migration = ? AND collection = ? AND key = ?"

  /// The guest, which is frozen, gets its records again.
  func restore(_ migration: inout Migration) throws(StorageError) -> Bool {
    var drafts: [RecordDraft] = []
    var bytes = 0
    try db.forEach(Self.selectMoved, .id(migration.id), .integer(Limits.applyRecords)) { row throws(StorageError) in
      let content = row.content(2)
      drafts.append(
        RecordDraft(name: RecordName(collection: try row.collection(0), key: try row.recordKey(1)), content: content))
      bytes += content.value.count
      return bytes < Limits.applyBytes
    }
    try SubjectRecords(subject: migration.guest, db: db).put(drafts)
    for draft in drafts {
      try db.execute(Self.deleteMoved, .id(migration.id), .name(draft.name.collection), .key(draft.name.key))
    }
    return migration.recordsRestored(isLast: drafts.isEmpty) != nil
  }

  // MARK: Forgetting

  /// What taking back needs.
  enum Memory: CaseIterable {
    /// What became of each record, and what the account had before.
    case outcomes
    /// What the guest had.
    case movedRecords

    fileprivate var delete: String {
      switch self {
      case .outcomes:
        """
        DELETE FROM migration_records WHERE migration = ?1 AND (collection, key) IN (
          SELECT collection, key FROM migration_records WHERE migration = ?1 LIMIT ?2)
        """
      case .movedRecords:
        "DELETE FROM moved_records WHERE rowid IN (SELECT rowid FROM moved_records WHERE migration = ? LIMIT ?)"
      }
    }
  }

  /// Returns how many rows, at most `limit`.
  @discardableResult
  func forget(_ memory: Memory, of id: MigrationID, limit: Int) throws(StorageError) -> Int {
    try db.execute(memory.delete, .id(id), .integer(limit))
  }

  private func takeBack(
    _ merged: Merged,
    _ revision: Int64,
    isSum: Bool,
    _ migration: Migration
  ) throws(StorageError) {
    let account = SubjectRecords(subject: migration.target, db: db)
    guard let current = try account.record(merged.targetName) else { return }
    if current.revision == revision {
      if let old = merged.old {
        try account.put([RecordDraft(name: merged.targetName, content: old)])
      } else {
        try account.delete(current)
      }
    } else if isSum, merged.outcome == .summed,
      let guests = try SubjectRecords(subject: migration.guest, db: db).record(merged.name)
    {
      let (number, overflows) = current.content.number.subtractingReportingOverflow(guests.content.number)
      guard !overflows else { return }
      var content = current.content
      content.number = number
      try account.put([RecordDraft(name: merged.targetName, content: content)])
    }
  }
}
