import LatchkeyModel
import Storage

/// The table `migration_records`. As for ``PostgreSQLRecords``, what is found by many keys at once is looked up by each.
struct PostgreSQLMerged: MergedRecordRows {
  let db: PostgreSQLConnection

  private static let insert = """
    INSERT INTO migration_records (
      migration, collection, key, outcome, position, found, revision, target_key, policy, old_value, old_number,
      old_updated_at)
    SELECT $1, collection, key, outcome, nullif(position, -1), nullif(found, -1), nullif(revision, -1),
      nullif(target_key, ''), nullif(policy, ''), CASE WHEN has_old = 1 THEN old_value END,
      CASE WHEN has_old = 1 THEN old_number END, CASE WHEN has_old = 1 THEN old_updated_at END
    FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[],
      $10::bigint[], $11::bytea[], $12::bigint[], $13::bigint[])
      AS new (collection, key, outcome, position, found, revision, target_key, policy, has_old, old_value, old_number,
        old_updated_at)
    """

  func insert(_ records: [MergedRecord], of id: MigrationID) async throws(StorageError) {
    if !records.isEmpty { try await db.execute(Self.insert, Self.values(records, of: id)) }
  }

  // Each is found by its key, which the plans of an UPDATE with as many need not do. Nobody removes one in between, which
  // would come back so: whoever removes them has their account locked.
  private static let update = """
    \(insert)
    WHERE EXISTS (
      SELECT FROM migration_records r
      WHERE r.migration = $1 AND r.collection = new.collection AND r.key = new.key)
    ON CONFLICT (migration, collection, key) DO UPDATE SET outcome = excluded.outcome, position = excluded.position,
      found = excluded.found, revision = excluded.revision, target_key = excluded.target_key, policy = excluded.policy,
      old_value = excluded.old_value, old_number = excluded.old_number, old_updated_at = excluded.old_updated_at
    """

  func change(_ records: [MergedRecord], of id: MigrationID) async throws(StorageError) {
    if !records.isEmpty { try await db.execute(Self.update, Self.values(records, of: id)) }
  }

  private static func values(_ records: [MergedRecord], of id: MigrationID) -> [PostgreSQLValue] {
    let names = records.map(\.name)
    let nothing = RecordContent(value: [], number: 0, updatedAt: Timestamp(millisecondsSinceEpoch: 0))
    let fixed: [PostgreSQLValue] = [
      .id(id), .collections(names), .keys(names), .texts(records.map(\.outcome.rawValue)),
      .naturals(records.map(\.position)), .naturals(records.map(\.found)), .naturals(records.map(\.revision)),
      .words(records.map { $0.targetKey?.description }), .words(records.map { $0.policy?.rawValue }),
      .integers(records.map { $0.old == nil ? 0 : 1 }),
    ]
    return fixed + PostgreSQLValue.contents(records.map { $0.old ?? nothing })
  }

  private static let selectFirst = """
    SELECT collection, key, target_key, revision IS NOT NULL FROM migration_records WHERE migration = $1
    ORDER BY collection, key LIMIT $2
    """

  func first(of id: MigrationID, limit: Int) async throws(StorageError) -> [MergedName] {
    try await db.all(Self.selectFirst, .id(id), .integer(limit)) { row throws(StorageError) in
      let name = try row.recordName(0)
      let target = row.isNull(2) ? name : RecordName(collection: name.collection, key: try row.recordKey(2))
      return MergedName(name: name, target: target, isWritten: row.boolean(3))
    }
  }

  // MARK: Layers

  /// Of merges that can be taken back or are under way, by a key that the guest may have had: see `values`.
  private static func select(_ columns: String, _ end: String = "") -> String {
    """
    SELECT name.place, \(columns)
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS name (place, collection, key, source)
    CROSS JOIN migrations m
    CROSS JOIN LATERAL (
      SELECT * FROM migration_records k
      WHERE k.migration = m.id AND k.collection = name.collection AND k.key = name.source LIMIT 1
    ) AS r
    CROSS JOIN LATERAL (
      SELECT policy FROM migration_collections k WHERE k.migration = m.id AND k.name = name.collection LIMIT 1
    ) AS c
    WHERE m.target = $1 AND m.phase NOT IN ('failed', 'undone')
      AND (m.finished_at IS NULL OR m.undo_until IS NOT NULL)
      AND coalesce(r.target_key, r.key) = name.key AND coalesce(r.position, r.revision) IS NOT NULL \(end)
    """
  }
  private static let selectLayers = select(
    """
    m.id, r.key, coalesce(r.policy, c.policy), r.policy IS NOT NULL, r.outcome, coalesce(r.position, r.revision),
      r.found, r.revision, r.old_value, r.old_number, r.old_updated_at
    """)
  private static let selectWeights = select(
    """
    count(*), sum(coalesce(octet_length(r.old_value), 0) + coalesce(
      (SELECT octet_length(value) FROM moved_records g
        WHERE g.migration = m.id AND g.collection = name.collection AND g.key = name.source LIMIT 1),
      (SELECT octet_length(value) FROM records g
        WHERE g.sub = m.guest AND g.collection = name.collection AND g.key = name.source LIMIT 1),
      0))::bigint
    """, "GROUP BY name.place")

  /// The places of names, each with the keys under which guests may have had what lies there: the same one, and the one
  /// that APPEND made it of.
  private static func values(_ names: [RecordName], into account: SubjectID) -> [PostgreSQLValue] {
    let sources = names.enumerated().flatMap { place, name in
      [name.key, name.key.unappended].compactMap { $0 }.map { (place: place, name: name, source: $0) }
    }
    return [
      .id(account), .integers(sources.map { Int64($0.place) }), .collections(sources.map(\.name)),
      .keys(sources.map(\.name)), .texts(sources.map(\.source.description)),
    ]
  }

  func layers(
    of names: [RecordName], into account: SubjectID
  ) async throws(StorageError) -> [[RecordLayers.Layer]] {
    var all = [[RecordLayers.Layer]](repeating: [], count: names.count)
    if names.isEmpty { return all }
    let rows = try await db.all(Self.selectLayers, Self.values(names, into: account)) { row throws(StorageError) in
      let place = Int(row.integer(0))
      let layer = RecordLayers.Layer(
        migration: try row.id(1), source: RecordName(collection: names[place].collection, key: try row.recordKey(2)),
        policy: try row.named(3), isDecided: row.boolean(4), outcome: try row.named(5), position: row.integer(6),
        found: row.optionalInteger(7), revision: row.optionalInteger(8), old: row.isNull(9) ? nil : row.content(9))
      return (place: place, layer: layer)
    }
    for row in rows { all[row.place].append(row.layer) }
    return all
  }

  func weights(of names: [RecordName], into account: SubjectID) async throws(StorageError) -> [LayersWeight] {
    var weights = [LayersWeight](repeating: LayersWeight(), count: names.count)
    if names.isEmpty { return weights }
    let rows = try await db.all(Self.selectWeights, Self.values(names, into: account)) { row in
      (place: Int(row.integer(0)), weight: LayersWeight(layers: Int(row.integer(1)), bytes: Int(row.integer(2))))
    }
    for row in rows { weights[row.place] = row.weight }
    return weights
  }

  // MARK: Removing

  private static let deleteNamed = """
    DELETE FROM migration_records WHERE ctid = ANY (ARRAY(
      SELECT place FROM unnest($2::text[], $3::text[]) AS name (collection, key) CROSS JOIN LATERAL (
        SELECT ctid AS place FROM migration_records r
        WHERE r.migration = $1 AND r.collection = name.collection AND r.key = name.key LIMIT 1
      ) AS kept))
    """

  func remove(_ names: [RecordName], of id: MigrationID) async throws(StorageError) {
    if !names.isEmpty { try await db.execute(Self.deleteNamed, .id(id), .collections(names), .keys(names)) }
  }

  // Nobody moves the rows in between: whoever removes them has their account locked.
  private static let deleteSome = """
    DELETE FROM migration_records WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM migration_records WHERE migration = $1 LIMIT $2))
    """

  func remove(of id: MigrationID, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.deleteSome, .id(id), .integer(limit))
  }

  private static let deleteOfAccount = """
    DELETE FROM migration_records WHERE ctid = ANY (ARRAY(
      SELECT place FROM migrations m CROSS JOIN LATERAL (
        SELECT ctid AS place FROM migration_records r WHERE r.migration = m.id LIMIT $2
      ) AS kept WHERE m.target = $1 LIMIT $2))
    """

  func remove(into account: SubjectID, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.deleteOfAccount, .id(account), .integer(limit))
  }

  // MARK: Recounting

  func recount(
    _ id: MigrationID, of guest: SubjectID, beyond place: RecordName?, count: Int
  ) async throws(StorageError) -> Recount {
    try await PostgreSQLRecount(id: id, guest: guest, db: db).next(beyond: place, count: count)
  }
}
