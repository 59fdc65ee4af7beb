import LatchkeyModel
import Storage

/// One subject's records within a transaction: the only place that writes them, so that counts, versions and
/// revisions stay true.
struct SubjectRecords {
  let subject: SubjectID
  let db: SQLiteConnection

  /// Whether the records may be written, and how often they have been.
  struct Standing {
    var version: Int64
    var migration: MigrationID?
    var isMigrated: Bool
    var isDeleted = false

    /// Why the records may not be written; nil when they may.
    func refusal<Value>(_ type: Value.Type = Value.self) -> WriteOutcome<Value>? {
      if isDeleted { return .deleted }
      if isMigrated { return .migrated }
      return migration == nil ? nil : .migrating
    }
  }

  private static let selectStanding = """
    SELECT version, migration, is_migrated, is_deleted FROM subjects WHERE sub = ?
    """

  func standing() throws(StorageError) -> Standing {
    let found = try db.first(Self.selectStanding, .id(subject)) { row throws(StorageError) in
      Standing(
        version: row.integer(0),
        migration: row.isNull(1) ? nil : try row.opaqueID(1, as: MigrationID.self),
        isMigrated: row.boolean(2),
        isDeleted: row.boolean(3))
    }
    return found ?? Standing(version: 0, migration: nil, isMigrated: false)
  }

  private static let upsertVersion = """
    INSERT INTO subjects (sub, version) VALUES (?1, ?2)
    ON CONFLICT (sub) DO UPDATE SET version = version + ?2 RETURNING version
    """

  /// The first of `count` new revisions.
  private func newRevisions(_ count: Int) throws(StorageError) -> Int64 {
    let last = try db.first(Self.upsertVersion, .id(subject), .integer(count)) { $0.integer(0) } ?? Int64(count)
    return last - Int64(count) + 1
  }

  private static let selectRecord = """
    SELECT key, value, number, updated_at, revision FROM records WHERE sub = ? AND collection = ? AND key = ?
    """

  func record(_ name: RecordName) throws(StorageError) -> Record? {
    try db.first(Self.selectRecord, .id(subject), .name(name.collection), .key(name.key)) { row throws(StorageError) in
      try row.record(0, in: name.collection)
    }
  }

  private static let selectRevision = "SELECT revision FROM records WHERE sub = ? AND collection = ? AND key = ?"

  private static let insert = """
    INSERT INTO records (sub, collection, key, value, number, updated_at, revision) VALUES (?, ?, ?, ?, ?, ?, ?)
    """

  private static let update = """
    UPDATE records SET value = ?4, number = ?5, updated_at = ?6, revision = ?7
    WHERE sub = ?1 AND collection = ?2 AND key = ?3
    """

  /// Writes the records in their order. Returns the revision of the first; each has one more than the one before.
  @discardableResult
  func put(_ drafts: [RecordDraft]) throws(StorageError) -> Int64 {
    guard !drafts.isEmpty else { return 0 }
    let first = try newRevisions(drafts.count)
    var revision = first
    var added: [CollectionName: Int] = [:]
    for draft in drafts {
      let (name, content) = (draft.name, draft.content)
      let exists =
        try db.first(Self.selectRevision, .id(subject), .name(name.collection), .key(name.key)) { _ in true } ?? false
      try db.execute(
        exists ? Self.update : Self.insert, .id(subject), .name(name.collection), .key(name.key), .blob(content.value),
        .integer(content.number), .time(content.updatedAt), .integer(revision))
      if !exists { added[name.collection, default: 0] += 1 }
      revision += 1
    }
    for (collection, count) in added { try addCount(count, to: collection) }
    return first
  }

  private static let deleteRecord = "DELETE FROM records WHERE sub = ? AND collection = ? AND key = ?"

  func delete(_ name: RecordName) throws(StorageError) {
    _ = try newRevisions(1)
    let count = try db.execute(Self.deleteRecord, .id(subject), .name(name.collection), .key(name.key))
    if count > 0 { try addCount(-count, to: name.collection) }
  }

  private static let upsertCount = """
    INSERT INTO collections (sub, name, records) VALUES (?1, ?2, ?3)
    ON CONFLICT (sub, name) DO UPDATE SET records = records + ?3
    """
  private static let deleteEmpty = "DELETE FROM collections WHERE sub = ? AND name = ? AND records = 0"

  private func addCount(_ count: Int, to collection: CollectionName) throws(StorageError) {
    // An empty collection has no row, so a negative count always finds one: were it inserted, its CHECK would fail.
    if count > 0 {
      try db.execute(Self.upsertCount, .id(subject), .name(collection), .integer(count))
    } else {
      try db.execute(Self.subtractCount, .id(subject), .name(collection), .integer(count))
      try db.execute(Self.deleteEmpty, .id(subject), .name(collection))
    }
  }

  private static let subtractCount = "UPDATE collections SET records = records + ?3 WHERE sub = ?1 AND name = ?2"

  private static let selectTarget = "SELECT 1 FROM migrations WHERE target = ? AND finished_at IS NULL LIMIT 1"

  /// Whether a migration that is under way writes here.
  func isTarget() throws(StorageError) -> Bool {
    try db.first(Self.selectTarget, .id(subject)) { _ in true } ?? false
  }

  private static let markDeleted = """
    INSERT INTO subjects (sub, version, is_deleted) VALUES (?1, 0, 1) ON CONFLICT (sub) DO UPDATE SET is_deleted = 1
    """
  private static let deleteSome = """
    DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE sub = ? LIMIT ?)
    """
  private static let deleteCounts = "DELETE FROM collections WHERE sub = ?"
  private static let deletePlans = "DELETE FROM plans WHERE guest = ? AND is_started = 0"
  private static let deleteRefused = """
    DELETE FROM refused_records WHERE migration IN (SELECT id FROM migrations WHERE target = ?1 OR guest = ?1)
    """

  /// Deletes at most `limit` records, and with the last ones all else that the subject left here.
  func purge(limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.markDeleted, .id(subject))
    let count = try db.execute(Self.deleteSome, .id(subject), .integer(limit))
    if count < limit {
      for statement in [Self.deleteCounts, Self.deletePlans, Self.deleteRefused] {
        try db.execute(statement, .id(subject))
      }
    }
    return count
  }

  private static let selectCounts = "SELECT name, records FROM collections WHERE sub = ? ORDER BY name"

  func counts() throws(StorageError) -> [CollectionCount] {
    try db.all(Self.selectCounts, .id(subject)) { row throws(StorageError) in
      CollectionCount(collection: try row.collection(0), count: Int(row.integer(1)))
    }
  }

  private static let selectCount = "SELECT records FROM collections WHERE sub = ? AND name = ?"

  func count(in collection: CollectionName) throws(StorageError) -> Int {
    Int(try db.first(Self.selectCount, .id(subject), .name(collection)) { $0.integer(0) } ?? 0)
  }

  private static let selectFirstPage = """
    SELECT key, value, number, updated_at, revision FROM records
    WHERE sub = ? AND collection = ? ORDER BY updated_at DESC, key DESC LIMIT ?
    """

  private static let selectNextPage = """
    SELECT key, value, number, updated_at, revision FROM records
    WHERE sub = ? AND collection = ? AND (updated_at, key) < (?, ?) ORDER BY updated_at DESC, key DESC LIMIT ?
    """

  /// Newest first, beyond `position`. One record is read ahead to tell whether there are more.
  func page(
    of collection: CollectionName,
    beyond position: RecordPosition?,
    count: Int,
    bytes: Int
  ) throws(StorageError) -> RecordPage {
    var records: [Record] = []
    var size = 0
    var hasMore = false
    let take: (SQLiteRow) throws(StorageError) -> Bool = { row throws(StorageError) in
      let record = try row.record(0, in: collection)
      size += record.content.value.count + record.name.key.description.utf8.count
      if records.count == count || (size > bytes && !records.isEmpty) {
        hasMore = true
        return false
      }
      records.append(record)
      return true
    }
    if let position {
      try db.forEach(
        Self.selectNextPage, .id(subject), .name(collection), .time(position.updatedAt), .key(position.key),
        .integer(count + 1), body: take)
    } else {
      try db.forEach(Self.selectFirstPage, .id(subject), .name(collection), .integer(count + 1), body: take)
    }
    return RecordPage(records: records, hasMore: hasMore)
  }
}
