import LatchkeyModel
import Storage

/// The table `refused_records`.
struct PostgreSQLSetAside: SetAsideRows {
  let db: PostgreSQLConnection

  private static let selectOne = """
    SELECT value, number, updated_at FROM refused_records WHERE migration = $1 AND collection = $2 AND key = $3
    """

  func find(_ name: RecordName, of id: MigrationID) async throws(StorageError) -> RecordContent? {
    try await db.first(Self.selectOne, .id(id), .name(name.collection), .key(name.key)) { $0.content(0) }
  }

  // As for a page of records: what it has no room for is not read.
  private static let selectPage = """
    SELECT collection, key, value, number, updated_at, reason, r_value, r_number, r_updated_at, r_revision, found FROM (
      SELECT *, count(*) OVER () AS found, row_number() OVER page AS place,
        sum(octet_length(value) + octet_length(collection) + octet_length(key) + coalesce(octet_length(r_value), 0))
          OVER page AS size
      FROM (
        SELECT s.collection, s.key, s.value, s.number, s.updated_at, s.reason, r.value AS r_value,
          r.number AS r_number, r.updated_at AS r_updated_at, r.revision AS r_revision
        FROM (
          SELECT * FROM refused_records WHERE migration = $1 AND (collection, key) > ($2, $3)
          ORDER BY collection, key LIMIT $4
        ) AS s LEFT JOIN LATERAL (
          SELECT * FROM records r WHERE r.sub = $6 AND r.collection = s.collection AND r.key = s.key LIMIT 1
        ) AS r ON true
      ) AS first
      WINDOW page AS (ORDER BY collection, key ROWS UNBOUNDED PRECEDING)
    ) AS counted WHERE place < $4 AND (size <= $5 OR place = 1) ORDER BY place
    """

  func page(
    of id: MigrationID, beyond name: RecordName?, with account: SubjectID, count: Int, bytes: Int
  ) async throws(StorageError) -> (conflicts: [MigrationConflict], hasMore: Bool) {
    var found = 0
    let conflicts = try await db.all(
      Self.selectPage, .id(id), .text(name?.collection.description ?? ""), .text(name?.key.description ?? ""),
      .integer(count + 1), .integer(bytes), .id(account)
    ) { row throws(StorageError) in
      found = Int(row.integer(10))
      let name = try row.recordName(0)
      let held = row.isNull(9) ? nil : Record(name: name, content: row.content(6), revision: row.integer(9))
      return MigrationConflict(name: name, reason: try row.named(5), guest: row.content(2), account: held)
    }
    return (conflicts, found > conflicts.count)
  }

  private static let insert = """
    INSERT INTO refused_records (migration, collection, key, reason, value, number, updated_at)
    SELECT $1, collection, key, reason, value, number, updated_at
    FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[])
      AS new (collection, key, reason, value, number, updated_at)
    """

  func insert(_ records: [SetAsideRecord], of id: MigrationID) async throws(StorageError) {
    if records.isEmpty { return }
    let names = records.map(\.name)
    let fixed: [PostgreSQLValue] = [
      .id(id), .collections(names), .keys(names), .texts(records.map(\.reason.rawValue)),
    ]
    try await db.execute(Self.insert, fixed + PostgreSQLValue.contents(records.map(\.content)))
  }

  private static let deleteOne = "DELETE FROM refused_records WHERE migration = $1 AND collection = $2 AND key = $3"

  func remove(_ name: RecordName, of id: MigrationID) async throws(StorageError) {
    try await db.execute(Self.deleteOne, .id(id), .name(name.collection), .key(name.key))
  }

  private static let deleteSome = """
    DELETE FROM refused_records WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM refused_records WHERE migration = $1 LIMIT $2))
    """

  func remove(of id: MigrationID, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.deleteSome, .id(id), .integer(limit))
  }

  private static let deleteOfAccount = """
    DELETE FROM refused_records WHERE ctid = ANY (ARRAY(
      SELECT place FROM migrations m CROSS JOIN LATERAL (
        SELECT ctid AS place FROM refused_records r WHERE r.migration = m.id LIMIT $2
      ) AS kept WHERE m.target = $1 LIMIT $2))
    """

  func remove(into account: SubjectID, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.deleteOfAccount, .id(account), .integer(limit))
  }

  private static let selectSize = """
    SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM (
      SELECT octet_length(r.value) AS bytes FROM migrations m JOIN refused_records r ON r.migration = m.id
      WHERE m.target = $1 LIMIT $2) AS waiting
    """

  func size(into account: SubjectID, limit: Int) async throws(StorageError) -> (records: Int, bytes: Int) {
    try await db.first(Self.selectSize, .id(account), .integer(limit)) { row in
      (Int(row.integer(0)), Int(row.integer(1)))
    } ?? (0, 0)
  }
}

/// The table `moved_records`.
struct PostgreSQLMoved: MovedRecordRows {
  let db: PostgreSQLConnection

  private static let selectNamed = """
    SELECT name.place, kept.* FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS name (collection, key, place)
    CROSS JOIN LATERAL (
      SELECT value, number, updated_at FROM moved_records r
      WHERE r.migration = $1 AND r.collection = name.collection AND r.key = name.key LIMIT 1
    ) AS kept
    """

  func find(_ names: [RecordName], of id: MigrationID) async throws(StorageError) -> [RecordContent?] {
    try await db.find(Self.selectNamed, names, of: .id(id)) { $0.content(1) }
  }

  private static let selectFirst = """
    SELECT collection, key, value, number, updated_at FROM (
      SELECT *, sum(octet_length(value)) OVER (ORDER BY collection, key ROWS UNBOUNDED PRECEDING) AS size
      FROM (SELECT * FROM moved_records WHERE migration = $1 ORDER BY collection, key LIMIT $2) AS first
    ) AS counted WHERE size - octet_length(value) < $3 ORDER BY collection, key
    """

  func first(of id: MigrationID, count: Int, bytes: Int) async throws(StorageError) -> [RecordDraft] {
    try await db.all(Self.selectFirst, .id(id), .integer(count), .integer(bytes)) { row throws(StorageError) in
      RecordDraft(name: try row.recordName(0), content: row.content(2))
    }
  }

  // Nobody moves the rows in between: their owner is locked.
  private static let take = """
    WITH taken AS (
      DELETE FROM records WHERE ctid = ANY (ARRAY(
        SELECT id FROM (
          SELECT id, length, sum(length) OVER (ORDER BY collection, key ROWS UNBOUNDED PRECEDING) AS size
          FROM (
            SELECT ctid AS id, collection, key, octet_length(value) AS length FROM records
            WHERE sub = $2 ORDER BY collection, key LIMIT $3
          ) AS first
        ) AS counted WHERE size - length < $4))
      RETURNING collection, key, value, number, updated_at
    )
    INSERT INTO moved_records (migration, collection, key, value, number, updated_at)
    SELECT $1, collection, key, value, number, updated_at FROM taken
    """

  func take(
    from guest: SubjectID, for id: MigrationID, count: Int, bytes: Int
  ) async throws(StorageError) -> Int {
    try await db.change(Self.take, .id(id), .id(guest), .integer(count), .integer(bytes))
  }

  private static let deleteNamed = """
    DELETE FROM moved_records WHERE ctid = ANY (ARRAY(
      SELECT place FROM unnest($2::text[], $3::text[]) AS name (collection, key) CROSS JOIN LATERAL (
        SELECT ctid AS place FROM moved_records r
        WHERE r.migration = $1 AND r.collection = name.collection AND r.key = name.key LIMIT 1
      ) AS kept))
    """

  func remove(_ names: [RecordName], of id: MigrationID) async throws(StorageError) {
    if !names.isEmpty { try await db.execute(Self.deleteNamed, .id(id), .collections(names), .keys(names)) }
  }

  private static let deleteSome = """
    DELETE FROM moved_records WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM moved_records WHERE migration = $1 LIMIT $2))
    """

  func remove(of id: MigrationID, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.deleteSome, .id(id), .integer(limit))
  }

  private static let deleteOfAccount = """
    DELETE FROM moved_records WHERE ctid = ANY (ARRAY(
      SELECT place FROM migrations m CROSS JOIN LATERAL (
        SELECT ctid AS place FROM moved_records r WHERE r.migration = m.id LIMIT $2
      ) AS kept WHERE m.target = $1 LIMIT $2))
    """

  func remove(into account: SubjectID, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.deleteOfAccount, .id(account), .integer(limit))
  }
}
