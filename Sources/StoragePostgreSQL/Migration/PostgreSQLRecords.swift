import LatchkeyModel
import Storage

/// The table `records`.
///
/// Where rows are found by many names at once, `LATERAL` and `LIMIT 1` have each looked up by its key: what PostgreSQL
/// knows of how many records people have is of most people, and its other plans take seconds for those who have the most.
struct PostgreSQLRecords: RecordRows {
  let db: PostgreSQLConnection

  private static func select(_ columns: String) -> String {
    """
    SELECT name.place, held.* FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS name (collection, key, place)
    CROSS JOIN LATERAL (
      SELECT \(columns) FROM records r
      WHERE r.sub = $1 AND r.collection = name.collection AND r.key = name.key LIMIT 1
    ) AS held
    """
  }
  private static let selectNamed = select("value, number, updated_at, revision, born")
  private static let selectLengths = select("octet_length(value)")

  func find(_ names: [RecordName], of subject: SubjectID) async throws(StorageError) -> [RecordLayers.Held?] {
    try await db.find(Self.selectNamed, names, of: .id(subject)) { row in
      RecordLayers.Held(content: row.content(1), revision: row.integer(4), born: row.integer(5))
    }
  }

  func lengths(of names: [RecordName], of subject: SubjectID) async throws(StorageError) -> [Int?] {
    try await db.find(Self.selectLengths, names, of: .id(subject)) { Int($0.integer(1)) }
  }

  // MARK: Pages

  /// The records of a page that fit, each with how many there were in all. What a page has no room for is not read.
  private static func selectFitting(_ subject: String, _ place: String, _ order: String) -> String {
    """
    SELECT key, value, number, updated_at, revision, found, place FROM (
      SELECT *, count(*) OVER () AS found, row_number() OVER page AS place,
        sum(octet_length(value) + octet_length(key)) OVER page AS size
      FROM (
        SELECT key, value, number, updated_at, revision FROM records g
        WHERE \(subject) = $1 AND collection = $2 \(place) ORDER BY \(order) LIMIT $3
      ) AS first
      WINDOW page AS (ORDER BY \(order) ROWS UNBOUNDED PRECEDING)
    ) AS counted WHERE place < $3 AND (size <= $4 OR place = 1)
    """
  }

  private static func selectPage(_ subject: String, _ place: String, _ order: String) -> String {
    "\(selectFitting(subject, place, order)) ORDER BY place"
  }

  private static func selectPairs(_ subject: String, _ place: String, _ order: String) -> String {
    """
    SELECT g.key, g.value, g.number, g.updated_at, g.revision, g.found, t.value, t.number, t.updated_at, t.revision
    FROM (\(selectFitting(subject, place, order))) AS g
    LEFT JOIN LATERAL (
      SELECT * FROM records r WHERE r.sub = $5 AND r.collection = $2 AND r.key = g.key LIMIT 1
    ) AS t ON true ORDER BY g.place
    """
  }

  /// A statement for each place that a page begins at; the values of the place come after `first` others.
  private struct Statements {
    let byKey, nextByKey, newest, nextNewest: String

    init(first: Int, _ select: (String, String, String) -> String) {
      byKey = select("sub", "", "key")
      nextByKey = select("sub", "AND key > $\(first + 1)", "key")
      // As the index of the newest has it.
      let (subject, order) = ("uuid_send(sub)", "updated_at DESC, key DESC")
      newest = select(subject, "", order)
      nextNewest = select(subject, "AND (updated_at, key) < ($\(first + 1), $\(first + 2))", order)
    }

    func select(_ order: RecordOrder) -> (sql: String, values: [PostgreSQLValue]) {
      switch order {
      case .keys(nil): (byKey, [])
      case .keys(let key?): (nextByKey, [.key(key)])
      case .newest(nil): (newest, [])
      case .newest(let position?): (nextNewest, [.time(position.updatedAt), .key(position.key)])
      }
    }
  }

  private static let pages = Statements(first: 4, selectPage)
  private static let pairs = Statements(first: 5, selectPairs)

  func page(
    _ collection: CollectionName, of subject: SubjectID, in order: RecordOrder, count: Int, bytes: Int
  ) async throws(StorageError) -> RecordPage {
    let (sql, place) = Self.pages.select(order)
    let values: [PostgreSQLValue] = [.id(subject), .name(collection), .integer(count + 1), .integer(bytes)]
    var found = 0
    let records = try await db.all(sql, values + place) { row throws(StorageError) in
      found = Int(row.integer(5))
      return try row.record(0, in: collection)
    }
    return RecordPage(records: records, hasMore: found > records.count)
  }

  func pairs(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID, in order: RecordOrder, count: Int,
    bytes: Int
  ) async throws(StorageError) -> (pairs: [RecordPair], hasMore: Bool) {
    let (sql, place) = Self.pairs.select(order)
    let values: [PostgreSQLValue] = [
      .id(subject), .name(collection), .integer(count + 1), .integer(bytes), .id(other),
    ]
    var found = 0
    let pairs = try await db.all(sql, values + place) { row throws(StorageError) in
      found = Int(row.integer(5))
      let record = try row.record(0, in: collection)
      let other = row.isNull(9) ? nil : Record(name: record.name, content: row.content(6), revision: row.integer(9))
      return RecordPair(record: record, other: other)
    }
    return (pairs, found > pairs.count)
  }

  // MARK: Two subjects

  private static let countOverlap = """
    SELECT count(*), count(*) FILTER (WHERE CASE
      WHEN g.number > 0 THEN t.number > 9223372036854775807 - g.number
      ELSE t.number < -9223372036854775807 - 1 - g.number END)
    FROM records g CROSS JOIN LATERAL (
      SELECT number FROM records r WHERE r.sub = $2 AND r.collection = g.collection AND r.key = g.key LIMIT 1
    ) AS t
    WHERE g.sub = $1 AND g.collection = $3
    """

  func overlap(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID
  ) async throws(StorageError) -> (shared: Int, overflowing: Int) {
    try await db.first(Self.countOverlap, .id(subject), .id(other), .name(collection)) {
      (Int($0.integer(0)), Int($0.integer(1)))
    } ?? (0, 0)
  }

  // MARK: Writing

  private static let insert = """
    INSERT INTO records (sub, collection, key, value, number, updated_at, revision, born)
    SELECT $1, collection, key, value, number, updated_at, revision, born
    FROM unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
      AS new (collection, key, value, number, updated_at, revision, born)
    """
  private static let update = """
    INSERT INTO records (sub, collection, key, value, number, updated_at, revision, born)
    SELECT $1, new.collection, new.key, new.value, new.number, new.updated_at, new.revision, held.born
    FROM unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[])
      AS new (collection, key, value, number, updated_at, revision)
    CROSS JOIN LATERAL (
      SELECT born FROM records r WHERE r.sub = $1 AND r.collection = new.collection AND r.key = new.key LIMIT 1
    ) AS held
    ON CONFLICT (sub, collection, key) DO UPDATE SET value = excluded.value, number = excluded.number,
      updated_at = excluded.updated_at, revision = excluded.revision
    """

  func write(_ writes: [RecordWrite], of subject: SubjectID) async throws(StorageError) {
    let batch = WriteBatch(writes)
    if !batch.inserts.isEmpty {
      let born = PostgreSQLValue.integers(batch.inserts.map(\.born))
      try await db.execute(Self.insert, Self.values(batch.inserts.map(\.write), of: subject) + [born])
    }
    if !batch.updates.isEmpty { try await db.execute(Self.update, Self.values(batch.updates, of: subject)) }
  }

  private static func values(_ writes: [RecordWrite], of subject: SubjectID) -> [PostgreSQLValue] {
    let names = writes.map(\.draft.name)
    let fixed: [PostgreSQLValue] = [.id(subject), .collections(names), .keys(names)]
    return fixed + PostgreSQLValue.contents(writes.map(\.draft.content)) + [.integers(writes.map(\.revision))]
  }

  // Nobody moves the rows in between: whoever removes records has their owner locked.
  private static let deleteNamed = """
    DELETE FROM records WHERE ctid = ANY (ARRAY(
      SELECT place FROM unnest($2::text[], $3::text[]) AS name (collection, key) CROSS JOIN LATERAL (
        SELECT ctid AS place FROM records r
        WHERE r.sub = $1 AND r.collection = name.collection AND r.key = name.key LIMIT 1
      ) AS held))
    """

  func remove(_ names: [RecordName], of subject: SubjectID) async throws(StorageError) -> Int {
    if names.isEmpty { return 0 }
    return try await db.change(Self.deleteNamed, .id(subject), .collections(names), .keys(names))
  }

  private static let deleteFirst = """
    DELETE FROM records WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM records WHERE sub = $1 ORDER BY collection, key LIMIT $2))
    """

  func remove(of subject: SubjectID, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.deleteFirst, .id(subject), .integer(limit))
  }
}

/// Writes of a batch, of which a statement writes each record once: what one of the batch writes over an earlier one takes
/// its place.
private struct WriteBatch {
  private(set) var inserts: [(write: RecordWrite, born: Int64)] = []
  private(set) var updates: [RecordWrite] = []

  init(_ writes: [RecordWrite]) {
    var newPlaces: [RecordName: Int] = [:]
    var places: [RecordName: Int] = [:]
    for write in writes {
      let name = write.draft.name
      if write.isNew {
        newPlaces[name] = inserts.count
        inserts.append((write, write.revision))
      } else if let place = newPlaces[name] {
        inserts[place].write = write
      } else if let place = places[name] {
        updates[place] = write
      } else {
        places[name] = updates.count
        updates.append(write)
      }
    }
    // In one order, so that what the rows lie in is gone through once.
    inserts.sort { $0.write.draft.name < $1.write.draft.name }
    updates.sort { $0.draft.name < $1.draft.name }
  }
}
