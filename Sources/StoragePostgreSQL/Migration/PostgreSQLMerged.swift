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

  private static let update = """
    UPDATE migration_records SET outcome = $4, position = $5, found = $6, revision = $7, target_key = $8, policy = $9,
      old_value = $10, old_number = $11, old_updated_at = $12
    WHERE migration = $1 AND collection = $2 AND key = $3
    """

  func change(_ record: MergedRecord, of id: MigrationID) async throws(StorageError) {
    try await db.execute(
      Self.update, .id(id), .name(record.name.collection), .key(record.name.key), .text(record.outcome.rawValue),
      .optional(record.position), .optional(record.found), .optional(record.revision),
      .optional(record.targetKey?.description), .optional(record.policy?.rawValue), .optional(record.old?.value),
      .optional(record.old?.number), .optional(record.old?.updatedAt.millisecondsSinceEpoch))
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

  /// Of merges that can be taken back or are under way, by the guest's key: under its own, and under the one that APPEND
  /// made of it.
  private static let selectLayers = """
    SELECT m.id, r.key, coalesce(r.policy, c.policy), r.policy IS NOT NULL, r.outcome, coalesce(r.position, r.revision),
      r.found, r.revision, r.old_value, r.old_number, r.old_updated_at
    FROM migrations m
    CROSS JOIN LATERAL (
      SELECT policy FROM migration_collections WHERE migration = m.id AND name = $2 LIMIT 1
    ) AS c
    CROSS JOIN LATERAL (
      SELECT * FROM migration_records WHERE migration = m.id AND collection = $2 AND key = ANY ($3::text[]) LIMIT 2
    ) AS r
    WHERE m.target = $1 AND m.phase NOT IN ('failed', 'undone')
      AND (m.finished_at IS NULL OR m.undo_until IS NOT NULL)
      AND coalesce(r.target_key, r.key) = $4 AND coalesce(r.position, r.revision) IS NOT NULL
    """

  func layers(of name: RecordName, into account: SubjectID) async throws(StorageError) -> [RecordLayers.Layer] {
    let keys = [name.key, name.key.unappended].compactMap { $0?.description }
    return try await db.all(
      Self.selectLayers, .id(account), .name(name.collection), .texts(keys), .key(name.key)
    ) { row throws(StorageError) in
      RecordLayers.Layer(
        migration: try row.id(0), source: RecordName(collection: name.collection, key: try row.recordKey(1)),
        policy: try row.named(2), isDecided: row.boolean(3), outcome: try row.named(4), position: row.integer(5),
        found: row.optionalInteger(6), revision: row.optionalInteger(7), old: row.isNull(8) ? nil : row.content(8))
    }
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
