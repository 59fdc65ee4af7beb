import LatchkeyModel
import Storage

/// What the merges into one account remember of each of its records, for as long as they can be taken back.
struct MergeMemory {
  let account: SubjectID
  let db: SQLiteConnection

  /// Of merges that can be taken back or are under way, joined by where they are found.
  private static func select(_ place: String) -> String {
    """
    SELECT r.migration, r.key, coalesce(r.policy, c.policy), r.policy IS NOT NULL, r.outcome,
      coalesce(r.position, r.revision), r.found, r.revision, r.old_value, r.old_number, r.old_updated_at
    FROM migrations m
    JOIN migration_records r ON r.migration = m.id AND r.collection = ?2 AND r.key = ?3
    JOIN migration_collections c ON c.migration = m.id AND c.name = ?2
    WHERE m.target = ?1 AND m.phase NOT IN ('failed', 'undone')
      AND (m.finished_at IS NULL OR m.undo_until IS NOT NULL)
      AND \(place) AND coalesce(r.position, r.revision) IS NOT NULL
    """
  }
  private static let selectLayers = select("r.target_key IS NULL")
  private static let selectAppended = select("r.target_key = ?4")

  /// Everything that was merged into the account's record of this name.
  func layers(of name: RecordName) throws(StorageError) -> RecordLayers {
    let read: (SQLiteRow) throws(StorageError) -> RecordLayers.Layer = { row throws(StorageError) in
      try layer(row, in: name.collection)
    }
    var layers = try db.all(
      Self.selectLayers, .id(account), .name(name.collection), .key(name.key), map: read)
    if let key = name.key.unappended {
      layers += try db.all(
        Self.selectAppended, .id(account), .name(name.collection), .key(key), .key(name.key), map: read)
    }
    return RecordLayers(held: try SubjectRecords(subject: account, db: db).held(name), layers: layers)
  }

  private func layer(_ row: SQLiteRow, in collection: CollectionName) throws(StorageError) -> RecordLayers.Layer {
    RecordLayers.Layer(
      migration: try row.opaqueID(0), source: RecordName(collection: collection, key: try row.recordKey(1)),
      policy: try row.named(2), isDecided: row.boolean(3), outcome: try row.named(4), position: row.integer(5),
      found: row.optionalInteger(6), revision: row.optionalInteger(7), old: row.isNull(8) ? nil : row.content(8))
  }

  private static let selectMoved = """
    SELECT value, number, updated_at FROM moved_records WHERE migration = ? AND collection = ? AND key = ?
    """
  private static let selectOwn = """
    SELECT r.value, r.number, r.updated_at
    FROM migrations m JOIN records r ON r.sub = m.guest AND r.collection = ?2 AND r.key = ?3 WHERE m.id = ?1
    """

  /// What the guest of a layer had: kept once it is purged, still its own before. Nil when it is forgotten.
  func guest(of layer: RecordLayers.Layer) throws(StorageError) -> RecordContent? {
    for select in [Self.selectMoved, Self.selectOwn] {
      let found = try db.first(
        select, .id(layer.migration), .name(layer.source.collection), .key(layer.source.key)
      ) { $0.content(0) }
      if let found { return found }
    }
    return nil
  }

  private static let update = """
    UPDATE migration_records SET outcome = ?4, found = ?5, revision = ?6, old_value = ?7, old_number = ?8,
      old_updated_at = ?9
    WHERE migration = ?1 AND collection = ?2 AND key = ?3
    """

  /// Stores what a layer remembers now.
  func remember(_ layer: RecordLayers.Layer) throws(StorageError) {
    try db.execute(
      Self.update, .id(layer.migration), .name(layer.source.collection), .key(layer.source.key),
      .text(layer.outcome.rawValue), .optional(layer.found), .optional(layer.revision), .optional(layer.old?.value),
      .optional(layer.old?.number), .optional(layer.old?.updatedAt.millisecondsSinceEpoch))
  }

  private static let unmerge = """
    UPDATE migration_records SET outcome = ?4, position = NULL, found = NULL, revision = NULL, old_value = NULL,
      old_number = NULL, old_updated_at = NULL, target_key = NULL, policy = NULL
    WHERE migration = ?1 AND collection = ?2 AND key = ?3
    """

  /// The guest's record of a layer does not go into the account any more: it waits for a person.
  func setAside(
    _ layer: RecordLayers.Layer, _ guest: RecordContent, _ reason: ConflictReason
  ) throws(StorageError) {
    let (id, name) = (layer.migration, layer.source)
    try db.execute(
      Self.unmerge, .id(id), .name(name.collection), .key(name.key), .text(MergeOutcome.refused.rawValue))
    try RefusedRecords.insert(name, guest, reason, of: id, in: db)
  }
}

/// Records that a migration set aside.
enum RefusedRecords {
  private static let insert = """
    INSERT INTO refused_records (migration, collection, key, value, number, updated_at, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    """

  static func insert(
    _ name: RecordName, _ content: RecordContent, _ reason: ConflictReason, of id: MigrationID, in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      insert, .id(id), .name(name.collection), .key(name.key), .blob(content.value), .integer(content.number),
      .time(content.updatedAt), .text(reason.rawValue))
  }
}
