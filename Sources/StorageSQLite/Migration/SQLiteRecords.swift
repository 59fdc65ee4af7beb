import LatchkeyModel
import Storage

/// The table `records`.
struct SQLiteRecords: RecordRows {
  let db: SQLiteConnection

  private static let selectOne = """
    SELECT value, number, updated_at, revision, born FROM records WHERE sub = ? AND collection = ? AND key = ?
    """

  func find(_ names: [RecordName], of subject: SubjectID) throws(StorageError) -> [RecordLayers.Held?] {
    try db.first(Self.selectOne, forEach: names) { name in
      [.id(subject), .name(name.collection), .key(name.key)]
    } map: { row in
      RecordLayers.Held(content: row.content(0), revision: row.integer(3), born: row.integer(4))
    }
  }

  private static let selectLength = "SELECT length(value) FROM records WHERE sub = ? AND collection = ? AND key = ?"

  func lengths(of names: [RecordName], of subject: SubjectID) throws(StorageError) -> [Int?] {
    try db.first(Self.selectLength, forEach: names) { name in
      [.id(subject), .name(name.collection), .key(name.key)]
    } map: {
      Int($0.integer(0))
    }
  }

  // MARK: Pages

  private static let newest = "(g.updated_at, g.key) < (?, ?) ORDER BY g.updated_at DESC, g.key DESC LIMIT ?"
  private static let byKey = "g.key > ? ORDER BY g.key LIMIT ?"

  private static func selectPage(_ place: String) -> String {
    """
    SELECT g.key, g.value, g.number, g.updated_at, g.revision FROM records g
    WHERE g.sub = ? AND g.collection = ? AND \(place)
    """
  }
  private static let selectNewest = selectPage(newest)
  private static let selectByKey = selectPage(byKey)

  func page(
    _ collection: CollectionName, of subject: SubjectID, in order: RecordOrder, count: Int, bytes: Int
  ) throws(StorageError) -> RecordPage {
    let (select, place) = Self.place(order, newest: Self.selectNewest, byKey: Self.selectByKey)
    var records: [Record] = []
    let values: [SQLiteValue] = [.id(subject), .name(collection)]
    let hasMore = try forEach(select, values + place, collection, count: count, bytes: bytes) {
      record, _ throws(StorageError) in records.append(record)
    }
    return RecordPage(records: records, hasMore: hasMore)
  }

  private static func selectPairs(_ place: String) -> String {
    """
    SELECT g.key, g.value, g.number, g.updated_at, g.revision, t.value, t.number, t.updated_at, t.revision
    FROM records g LEFT JOIN records t ON t.sub = ? AND t.collection = g.collection AND t.key = g.key
    WHERE g.sub = ? AND g.collection = ? AND \(place)
    """
  }
  private static let selectNewestPairs = selectPairs(newest)
  private static let selectPairsByKey = selectPairs(byKey)

  func pairs(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID, in order: RecordOrder, count: Int,
    bytes: Int
  ) throws(StorageError) -> (pairs: [RecordPair], hasMore: Bool) {
    let (select, place) = Self.place(order, newest: Self.selectNewestPairs, byKey: Self.selectPairsByKey)
    var pairs: [RecordPair] = []
    let values: [SQLiteValue] = [.id(other), .id(subject), .name(collection)]
    let hasMore = try forEach(select, values + place, collection, count: count, bytes: bytes) {
      record, row throws(StorageError) in
      let other = row.isNull(8) ? nil : Record(name: record.name, content: row.content(5), revision: row.integer(8))
      pairs.append(RecordPair(record: record, other: other))
    }
    return (pairs, hasMore)
  }

  /// The statement of an order, and the values of its place.
  private static func place(
    _ order: RecordOrder, newest: String, byKey: String
  ) -> (select: String, values: [SQLiteValue]) {
    switch order {
    case .keys(let key): (byKey, [.text(key?.description ?? "")])
    case .newest(let position?): (newest, [.time(position.updatedAt), .key(position.key)])
    // Every text is less than any blob.
    case .newest(nil): (newest, [.integer(Int64.max), .blob([])])
    }
  }

  /// Hands on each row of a page. One is read ahead to tell whether there are more.
  private func forEach(
    _ select: String, _ values: [SQLiteValue], _ collection: CollectionName, count: Int, bytes: Int,
    body: (Record, SQLiteRow) throws(StorageError) -> Void
  ) throws(StorageError) -> Bool {
    var (found, size, hasMore) = (0, 0, false)
    try db.forEach(select, values + [.integer(count + 1)]) { row throws(StorageError) in
      let record = try row.record(0, in: collection)
      size += record.content.value.count + record.name.key.description.utf8.count
      if found == count || (size > bytes && found > 0) {
        hasMore = true
        return false
      }
      found += 1
      try body(record, row)
      return true
    }
    return hasMore
  }

  // MARK: Two subjects

  private static let countOverlap = """
    SELECT count(*), count(*) FILTER (WHERE
      (g.number > 0 AND t.number > 9223372036854775807 - g.number)
      OR (g.number < 0 AND t.number < -9223372036854775807 - 1 - g.number))
    FROM records g JOIN records t ON t.sub = ?2 AND t.collection = g.collection AND t.key = g.key
    WHERE g.sub = ?1 AND g.collection = ?3
    """

  func overlap(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID
  ) throws(StorageError) -> (shared: Int, overflowing: Int) {
    try db.first(Self.countOverlap, .id(subject), .id(other), .name(collection)) {
      (Int($0.integer(0)), Int($0.integer(1)))
    } ?? (0, 0)
  }

  // MARK: Writing

  private static let insert = """
    INSERT INTO records (sub, collection, key, value, number, updated_at, revision, born)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
    """
  private static let update = """
    UPDATE records SET value = ?4, number = ?5, updated_at = ?6, revision = ?7
    WHERE sub = ?1 AND collection = ?2 AND key = ?3
    """

  func write(_ writes: [RecordWrite], of subject: SubjectID) throws(StorageError) {
    // What takes the place of a new one of the same batch comes after it, so these may go first.
    for isNew in [true, false] {
      try db.execute(isNew ? Self.insert : Self.update, forEach: writes.filter { $0.isNew == isNew }) { write in
        let (name, content) = (write.draft.name, write.draft.content)
        return [
          .id(subject), .name(name.collection), .key(name.key), .blob(content.value), .integer(content.number),
          .time(content.updatedAt), .integer(write.revision),
        ]
      }
    }
  }

  private static let deleteOne = "DELETE FROM records WHERE sub = ? AND collection = ? AND key = ?"

  func remove(_ names: [RecordName], of subject: SubjectID) throws(StorageError) -> Int {
    try db.execute(Self.deleteOne, forEach: names) { [.id(subject), .name($0.collection), .key($0.key)] }
  }

  static let deleteFirst = """
    DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE sub = ? ORDER BY collection, key LIMIT ?)
    """

  func remove(of subject: SubjectID, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.deleteFirst, .id(subject), .integer(limit))
  }
}
