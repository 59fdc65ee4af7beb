import LatchkeyModel
import Storage

/// The table `refused_records`.
struct SQLiteSetAside: SetAsideRows {
  let db: SQLiteConnection

  private static let selectOne = """
    SELECT value, number, updated_at FROM refused_records WHERE migration = ? AND collection = ? AND key = ?
    """

  func find(_ name: RecordName, of id: MigrationID) throws(StorageError) -> RecordContent? {
    try db.first(Self.selectOne, .id(id), .name(name.collection), .key(name.key)) { $0.content(0) }
  }

  private static let selectPage = """
    SELECT s.collection, s.key, s.value, s.number, s.updated_at, s.reason, r.value, r.number, r.updated_at, r.revision
    FROM refused_records s LEFT JOIN records r ON r.sub = ? AND r.collection = s.collection AND r.key = s.key
    WHERE s.migration = ? AND (s.collection, s.key) > (?, ?) ORDER BY s.collection, s.key LIMIT ?
    """

  func page(
    of id: MigrationID, beyond name: RecordName?, with account: SubjectID, count: Int, bytes: Int
  ) throws(StorageError) -> (conflicts: [MigrationConflict], hasMore: Bool) {
    var found: [MigrationConflict] = []
    var (size, hasMore) = (0, false)
    try db.forEach(
      Self.selectPage, .id(account), .id(id), .text(name?.collection.description ?? ""),
      .text(name?.key.description ?? ""), .integer(count + 1)
    ) { row throws(StorageError) in
      let name = RecordName(collection: try row.collection(0), key: try row.recordKey(1))
      let held = row.isNull(9) ? nil : Record(name: name, content: row.content(6), revision: row.integer(9))
      let conflict = MigrationConflict(name: name, reason: try row.named(5), guest: row.content(2), account: held)
      size += conflict.guest.value.count + (held?.content.value.count ?? 0) + name.bytes
      guard found.count < count, size <= bytes || found.isEmpty else {
        hasMore = true
        return false
      }
      found.append(conflict)
      return true
    }
    return (found, hasMore)
  }

  private static let insert = """
    INSERT INTO refused_records (migration, collection, key, value, number, updated_at, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    """

  func insert(_ records: [SetAsideRecord], of id: MigrationID) throws(StorageError) {
    try db.execute(Self.insert, forEach: records) { record in
      [
        .id(id), .name(record.name.collection), .key(record.name.key), .blob(record.content.value),
        .integer(record.content.number), .time(record.content.updatedAt), .text(record.reason.rawValue),
      ]
    }
  }

  private static let deleteOne = "DELETE FROM refused_records WHERE migration = ? AND collection = ? AND key = ?"

  func remove(_ name: RecordName, of id: MigrationID) throws(StorageError) {
    try db.execute(Self.deleteOne, .id(id), .name(name.collection), .key(name.key))
  }

  private static let deleteSome = """
    DELETE FROM refused_records WHERE rowid IN (SELECT rowid FROM refused_records WHERE migration = ? LIMIT ?)
    """

  func remove(of id: MigrationID, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.deleteSome, .id(id), .integer(limit))
  }

  private static let deleteOfAccount = """
    DELETE FROM refused_records WHERE rowid IN (
      SELECT r.rowid FROM migrations m JOIN refused_records r ON r.migration = m.id WHERE m.target = ?1 LIMIT ?2)
    """

  func remove(into account: SubjectID, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.deleteOfAccount, .id(account), .integer(limit))
  }

  private static let selectSize = """
    SELECT count(*), coalesce(sum(bytes), 0) FROM (
      SELECT length(r.value) AS bytes FROM migrations m JOIN refused_records r ON r.migration = m.id
      WHERE m.target = ?1 LIMIT ?2)
    """

  func size(into account: SubjectID, limit: Int) throws(StorageError) -> (records: Int, bytes: Int) {
    try db.first(Self.selectSize, .id(account), .integer(limit)) { row in
      (Int(row.integer(0)), Int(row.integer(1)))
    } ?? (0, 0)
  }
}

/// The table `moved_records`.
struct SQLiteMoved: MovedRecordRows {
  let db: SQLiteConnection

  private static let selectOne = """
    SELECT value, number, updated_at FROM moved_records WHERE migration = ? AND collection = ? AND key = ?
    """

  func find(_ names: [RecordName], of id: MigrationID) throws(StorageError) -> [RecordContent?] {
    try db.first(Self.selectOne, forEach: names) {
      [.id(id), .name($0.collection), .key($0.key)]
    } map: {
      $0.content(0)
    }
  }

  private static let selectFirst = """
    SELECT collection, key, value, number, updated_at FROM moved_records
    WHERE migration = ? ORDER BY collection, key LIMIT ?
    """

  func first(of id: MigrationID, count: Int, bytes: Int) throws(StorageError) -> [RecordDraft] {
    var drafts: [RecordDraft] = []
    var size = 0
    try db.forEach(Self.selectFirst, .id(id), .integer(count)) { row throws(StorageError) in
      let name = RecordName(collection: try row.collection(0), key: try row.recordKey(1))
      let content = row.content(2)
      drafts.append(RecordDraft(name: name, content: content))
      size += content.value.count
      return size < bytes
    }
    return drafts
  }

  private static let selectLengths = "SELECT length(value) FROM records WHERE sub = ? ORDER BY collection, key LIMIT ?"
  private static let copy = """
    INSERT INTO moved_records (migration, collection, key, value, number, updated_at)
    SELECT ?1, collection, key, value, number, updated_at FROM records WHERE sub = ?2 ORDER BY collection, key LIMIT ?3
    """

  func take(
    from guest: SubjectID, for id: MigrationID, count: Int, bytes: Int
  ) throws(StorageError) -> Int {
    var (fitting, size) = (0, 0)
    try db.forEach(Self.selectLengths, .id(guest), .integer(count)) { row in
      fitting += 1
      size += Int(row.integer(0))
      return size < bytes
    }
    try db.execute(Self.copy, .id(id), .id(guest), .integer(fitting))
    return try db.execute(SQLiteRecords.deleteFirst, .id(guest), .integer(fitting))
  }

  private static let deleteOne = "DELETE FROM moved_records WHERE migration = ? AND collection = ? AND key = ?"

  func remove(_ names: [RecordName], of id: MigrationID) throws(StorageError) {
    try db.execute(Self.deleteOne, forEach: names) { [.id(id), .name($0.collection), .key($0.key)] }
  }

  private static let deleteSome = """
    DELETE FROM moved_records WHERE rowid IN (SELECT rowid FROM moved_records WHERE migration = ? LIMIT ?)
    """

  func remove(of id: MigrationID, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.deleteSome, .id(id), .integer(limit))
  }

  private static let deleteOfAccount = """
    DELETE FROM moved_records WHERE rowid IN (
      SELECT r.rowid FROM migrations m JOIN moved_records r ON r.migration = m.id WHERE m.target = ?1 LIMIT ?2)
    """

  func remove(into account: SubjectID, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.deleteOfAccount, .id(account), .integer(limit))
  }
}
