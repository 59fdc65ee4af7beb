import LatchkeyModel
import Storage

/// The table `migration_records`.
struct SQLiteMerged: MergedRecordRows {
  let db: SQLiteConnection

  private static let insert = """
    INSERT INTO migration_records (
      migration, collection, key, outcome, position, found, revision, old_value, old_number, old_updated_at, target_key,
      policy
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """

  func insert(_ records: [MergedRecord], of id: MigrationID) throws(StorageError) {
    try db.execute(Self.insert, forEach: records) { Self.values($0, of: id) }
  }

  private static let update = """
    UPDATE migration_records SET outcome = ?4, position = ?5, found = ?6, revision = ?7, old_value = ?8, old_number = ?9,
      old_updated_at = ?10, target_key = ?11, policy = ?12
    WHERE migration = ?1 AND collection = ?2 AND key = ?3
    """

  func change(_ records: [MergedRecord], of id: MigrationID) throws(StorageError) {
    try db.execute(Self.update, forEach: records) { Self.values($0, of: id) }
  }

  private static func values(_ record: MergedRecord, of id: MigrationID) -> [SQLiteValue] {
    [
      .id(id), .name(record.name.collection), .key(record.name.key), .text(record.outcome.rawValue),
      .optional(record.position), .optional(record.found), .optional(record.revision), .optional(record.old?.value),
      .optional(record.old?.number), .optional(record.old?.updatedAt.millisecondsSinceEpoch),
      .optional(record.targetKey?.description), .optional(record.policy?.rawValue),
    ]
  }

  private static let selectFirst = """
    SELECT collection, key, target_key, revision FROM migration_records WHERE migration = ?
    ORDER BY collection, key LIMIT ?
    """

  func first(of id: MigrationID, limit: Int) throws(StorageError) -> [MergedName] {
    try db.all(Self.selectFirst, .id(id), .integer(limit)) { row throws(StorageError) in
      let name = RecordName(collection: try row.collection(0), key: try row.recordKey(1))
      let target = row.isNull(2) ? name : RecordName(collection: name.collection, key: try row.recordKey(2))
      return MergedName(name: name, target: target, isWritten: !row.isNull(3))
    }
  }

  // MARK: Layers

  /// Of merges that can be taken back or are under way, joined by where they are found.
  private static func select(_ columns: String, _ place: String) -> String {
    """
    SELECT \(columns)
    FROM migrations m
    JOIN migration_records r ON r.migration = m.id AND r.collection = ?2 AND r.key = ?3
    JOIN migration_collections c ON c.migration = m.id AND c.name = ?2
    WHERE m.target = ?1 AND m.phase NOT IN ('failed', 'undone')
      AND (m.finished_at IS NULL OR m.undo_until IS NOT NULL)
      AND \(place) AND coalesce(r.position, r.revision) IS NOT NULL
    """
  }
  /// The statement over what has an account's name for it, and the one over what APPEND brought there.
  private static func selects(_ columns: String) -> (own: String, appended: String) {
    (select(columns, "r.target_key IS NULL"), select(columns, "r.target_key = ?4"))
  }
  private static let selectLayers = selects(
    """
    r.migration, r.key, coalesce(r.policy, c.policy), r.policy IS NOT NULL, r.outcome,
      coalesce(r.position, r.revision), r.found, r.revision, r.old_value, r.old_number, r.old_updated_at
    """)
  private static let selectWeight = selects(
    """
    count(*), coalesce(sum(coalesce(length(r.old_value), 0) + coalesce(
      (SELECT length(value) FROM moved_records g
        WHERE g.migration = r.migration AND g.collection = r.collection AND g.key = r.key),
      (SELECT length(value) FROM records g WHERE g.sub = m.guest AND g.collection = r.collection AND g.key = r.key),
      0)), 0)
    """)

  func layers(of names: [RecordName], into account: SubjectID) throws(StorageError) -> [[RecordLayers.Layer]] {
    var all: [[RecordLayers.Layer]] = []
    for name in names {
      var layers: [RecordLayers.Layer] = []
      try forEach(Self.selectLayers, name, account) { row throws(StorageError) in
        layers.append(
          RecordLayers.Layer(
            migration: try row.opaqueID(0),
            source: RecordName(collection: name.collection, key: try row.recordKey(1)), policy: try row.named(2),
            isDecided: row.boolean(3), outcome: try row.named(4), position: row.integer(5),
            found: row.optionalInteger(6), revision: row.optionalInteger(7),
            old: row.isNull(8) ? nil : row.content(8)))
      }
      all.append(layers)
    }
    return all
  }

  func weights(of names: [RecordName], into account: SubjectID) throws(StorageError) -> [LayersWeight] {
    var weights: [LayersWeight] = []
    for name in names {
      var weight = LayersWeight()
      try forEach(Self.selectWeight, name, account) { row in
        weight.layers += Int(row.integer(0))
        weight.bytes += Int(row.integer(1))
      }
      weights.append(weight)
    }
    return weights
  }

  private func forEach(
    _ select: (own: String, appended: String), _ name: RecordName, _ account: SubjectID,
    _ body: (SQLiteRow) throws(StorageError) -> Void
  ) throws(StorageError) {
    let next: (SQLiteRow) throws(StorageError) -> Bool = { row throws(StorageError) in
      try body(row)
      return true
    }
    try db.forEach(select.own, .id(account), .name(name.collection), .key(name.key), body: next)
    if let key = name.key.unappended {
      try db.forEach(select.appended, .id(account), .name(name.collection), .key(key), .key(name.key), body: next)
    }
  }

  // MARK: Removing

  private static let deleteOne = "DELETE FROM migration_records WHERE migration = ? AND collection = ? AND key = ?"

  func remove(_ names: [RecordName], of id: MigrationID) throws(StorageError) {
    try db.execute(Self.deleteOne, forEach: names) { [.id(id), .name($0.collection), .key($0.key)] }
  }

  private static let deleteSome = """
    DELETE FROM migration_records WHERE migration = ?1 AND (collection, key) IN (
      SELECT collection, key FROM migration_records WHERE migration = ?1 LIMIT ?2)
    """

  func remove(of id: MigrationID, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.deleteSome, .id(id), .integer(limit))
  }

  private static let deleteOfAccount = """
    DELETE FROM migration_records WHERE (migration, collection, key) IN (
      SELECT r.migration, r.collection, r.key FROM migrations m JOIN migration_records r ON r.migration = m.id
      WHERE m.target = ?1 LIMIT ?2)
    """

  func remove(into account: SubjectID, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.deleteOfAccount, .id(account), .integer(limit))
  }

  // MARK: Recounting

  func recount(
    _ id: MigrationID, of guest: SubjectID, beyond place: RecordName?, count: Int
  ) throws(StorageError) -> Recount {
    try SQLiteRecount(id: id, guest: guest, db: db).next(beyond: place, count: count)
  }
}

/// Holds a guest's records beside what became of each.
private struct SQLiteRecount {
  let id: MigrationID
  let guest: SubjectID
  let db: SQLiteConnection

  private static let selectEnd = """
    SELECT collection, key FROM records WHERE sub = ?1 AND (collection, key) > (?2, ?3)
    ORDER BY collection, key LIMIT 1 OFFSET ?4
    """

  fileprivate static func stretch(_ table: String, _ isBounded: Bool) -> String {
    let begin = "(\(table).collection, \(table).key) > (?3, ?4)"
    return isBounded ? "\(begin) AND (\(table).collection, \(table).key) <= (?5, ?6)" : begin
  }

  // Each statement takes the same values; the two that do not ask for the guest say so.
  private struct Statements {
    let unmerged, foreign, lost, outcomes: String

    init(isBounded: Bool) {
      unmerged = """
        SELECT count(*) FROM records r WHERE r.sub = ?1 AND \(SQLiteRecount.stretch("r", isBounded)) AND NOT EXISTS (
          SELECT 1 FROM migration_records m WHERE m.migration = ?2 AND m.collection = r.collection AND m.key = r.key)
        """
      foreign = """
        SELECT count(*) FROM migration_records m WHERE m.migration = ?2 AND \(SQLiteRecount.stretch("m", isBounded)) AND NOT EXISTS (
          SELECT 1 FROM records r WHERE r.sub = ?1 AND r.collection = m.collection AND r.key = m.key)
        """
      lost = """
        SELECT count(*) FROM migration_records m
        WHERE m.migration = ?2 AND \(SQLiteRecount.stretch("m", isBounded)) AND ?1 IS NOT NULL
          AND m.outcome IN ('refused', 'asked') AND NOT EXISTS (
            SELECT 1 FROM refused_records f WHERE f.migration = ?2 AND f.collection = m.collection AND f.key = m.key)
        """
      outcomes = """
        SELECT collection, outcome, count(*) FROM migration_records m
        WHERE m.migration = ?2 AND \(SQLiteRecount.stretch("m", isBounded)) AND ?1 IS NOT NULL GROUP BY collection, outcome
        """
    }
  }

  private static let inTheMiddle = Statements(isBounded: true)
  private static let atTheEnd = Statements(isBounded: false)

  func next(beyond place: RecordName?, count: Int) throws(StorageError) -> Recount {
    let begin: [SQLiteValue] = [
      .text(place?.collection.description ?? ""), .text(place?.key.description ?? ""),
    ]
    var recount = Recount()
    recount.end = try db.first(
      Self.selectEnd, [.id(guest)] + begin + [.integer(count - 1)]
    ) { row throws(StorageError) in RecordName(collection: try row.collection(0), key: try row.recordKey(1)) }
    var values: [SQLiteValue] = [.id(guest), .id(id)] + begin
    if let end = recount.end { values += [.name(end.collection), .key(end.key)] }
    func total(_ sql: String) throws(StorageError) -> Int {
      Int(try db.first(sql, values) { $0.integer(0) } ?? 0)
    }
    let statements = recount.end == nil ? Self.atTheEnd : Self.inTheMiddle
    recount.unmerged = try total(statements.unmerged)
    recount.foreign = try total(statements.foreign)
    recount.lost = try total(statements.lost)
    try db.forEach(statements.outcomes, values) { row throws(StorageError) in
      recount.outcomes[try row.collection(0), default: [:]][try row.named(1), default: 0] += Int(row.integer(2))
      return true
    }
    return recount
  }
}
