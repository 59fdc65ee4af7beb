import LatchkeyModel
import Storage

/// Takes back what a migration did, within the transaction that also stores the new state.
///
/// The account was not frozen meanwhile, and other guests may have been merged into it since: `RecordLayers` says what
/// becomes of each record.
struct MigrationUndo {
  let db: SQLiteConnection
  let now: Timestamp

  private static let selectMerged = """
    SELECT collection, key, target_key, revision FROM migration_records WHERE migration = ?
    ORDER BY collection, key LIMIT ?
    """
  private static let deleteMerged = """
    DELETE FROM migration_records WHERE migration = ? AND collection = ? AND key = ?
    """
  private static let deleteRefused = """
    DELETE FROM refused_records WHERE rowid IN (SELECT rowid FROM refused_records WHERE migration = ? LIMIT ?)
    """
  private static let noteRemained = """
    UPDATE migration_collections SET remained = remained + ?3 WHERE migration = ?1 AND name = ?2
    """
  /// A collection in which everything is as it was has nothing to report.
  private static let deleteReports = "DELETE FROM migration_collections WHERE migration = ? AND remained = 0"
  private static let thaw = "UPDATE subjects SET migration = NULL WHERE sub = ? AND migration = ? AND is_migrated = 0"

  func undo(_ migration: inout Migration) throws(StorageError) -> Bool {
    let merged = try db.all(Self.selectMerged, .id(migration.id), .integer(Limits.applyRecords)) {
      row throws(StorageError) in
      let name = RecordName(collection: try row.collection(0), key: try row.recordKey(1))
      let target = row.isNull(2) ? name : RecordName(collection: name.collection, key: try row.recordKey(2))
      return (name: name, target: target, isWritten: !row.isNull(3))
    }
    let memory = MergeMemory(account: migration.target, db: db)
    var remained: [CollectionName: Int] = [:]
    var (done, layersLeft, bytesLeft) = (0, Limits.undoLayers, Limits.applyBytes)
    for one in merged where layersLeft > 0 && bytesLeft > 0 {
      if one.isWritten {
        let layers = try memory.layers(of: one.target)
        if try takeBack(one.name, from: one.target, layers, memory, migration) {
          remained[one.name.collection, default: 0] += 1
        }
        layersLeft -= layers.layers.count
        bytesLeft -= layers.bytes
      }
      try db.execute(Self.deleteMerged, .id(migration.id), .name(one.name.collection), .key(one.name.key))
      done += 1
    }
    for (collection, count) in remained {
      try db.execute(Self.noteRemained, .id(migration.id), .name(collection), .integer(count))
    }
    var isLast = done == merged.count && done < Limits.applyRecords
    if isLast {
      isLast =
        try db.execute(Self.deleteRefused, .id(migration.id), .integer(Limits.purgeRecords)) < Limits.purgeRecords
    }
    if isLast {
      try db.execute(Self.deleteReports, .id(migration.id))
      try db.execute(Self.thaw, .id(migration.guest), .id(migration.id))
    }
    return migration.recordsUndone(isLast: isLast, at: now)
  }

  /// Takes what became of the guest's record `source` out of the account's record `target`. Whether that is left other
  /// than it was before the merge.
  private func takeBack(
    _ source: RecordName,
    from target: RecordName,
    _ layers: RecordLayers,
    _ memory: MergeMemory,
    _ migration: Migration
  ) throws(StorageError) -> Bool {
    let removal = try layers.removing(source, of: migration.id) { layer throws(StorageError) in
      try memory.guest(of: layer)
    }
    guard let removal else { return false }
    var revision = layers.held?.revision ?? 0
    if removal.isChange {
      let account = SubjectRecords(subject: migration.target, db: db)
      if let content = removal.content {
        revision = try account.put([RecordDraft(name: target, content: content)])
      } else if let held = layers.held {
        try account.delete(Record(name: target, content: held.content, revision: held.revision))
        revision = 0
      }
    }
    for layer in removal.remembered(at: revision) { try memory.remember(layer) }
    for (layer, guest, reason) in removal.unfit { try memory.setAside(layer, guest, reason) }
    return removal.isLeft
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
}
