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
    INSERT INTO subjects (sub, version, records, bytes) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (sub) DO UPDATE SET version = version + ?2, records = records + ?3, bytes = bytes + ?4
    RETURNING version
    """

  /// The first of `count` new revisions, with what the writes that have them add to the subject's records.
  private func newRevisions(_ count: Int, records: Int, bytes: Int) throws(StorageError) -> Int64 {
    let last = try db.first(
      Self.upsertVersion, .id(subject), .integer(count), .integer(records), .integer(bytes)
    ) { $0.integer(0) }
    return (last ?? Int64(count)) - Int64(count) + 1
  }

  private static let selectRecord = """
    SELECT key, value, number, updated_at, revision FROM records WHERE sub = ? AND collection = ? AND key = ?
    """

  func record(_ name: RecordName) throws(StorageError) -> Record? {
    try db.first(Self.selectRecord, .id(subject), .name(name.collection), .key(name.key)) { row throws(StorageError) in
      try row.record(0, in: name.collection)
    }
  }

  /// Whether there is such a record, and how long its value is, without reading it.
  private static let selectLength = "SELECT length(value) FROM records WHERE sub = ? AND collection = ? AND key = ?"

  /// What writing records changes, found out before they are written.
  struct Change {
    /// For each record in its order: whether one of its name is there by then.
    fileprivate(set) var replaces: [Bool] = []
    /// New records.
    fileprivate(set) var added: [CollectionName: Int] = [:]
    fileprivate(set) var bytes = 0
    fileprivate var records: Int { added.values.reduce(0, +) }

    /// One more record is written, where there is one with a value of `held` bytes, or none.
    mutating func write(_ draft: RecordDraft, over held: Int?) {
      let length = draft.content.value.count
      replaces.append(held != nil)
      if let held {
        bytes += length - held
      } else {
        bytes += length + draft.name.bytes
        added[draft.name.collection, default: 0] += 1
      }
    }
  }

  func change(by drafts: [RecordDraft]) throws(StorageError) -> Change {
    var change = Change()
    change.replaces.reserveCapacity(drafts.count)
    // Those of the same name take each other's place.
    var lengths: [RecordName: Int] = [:]
    for draft in drafts {
      let name = draft.name
      var held = lengths[name]
      if held == nil {
        held = try db.first(Self.selectLength, .id(subject), .name(name.collection), .key(name.key)) {
          Int($0.integer(0))
        }
      }
      lengths[name] = draft.content.value.count
      change.write(draft, over: held)
    }
    return change
  }

  private static let selectUsage = "SELECT records, bytes FROM subjects WHERE sub = ?"
  private static let countCollections = "SELECT count(*) FROM collections WHERE sub = ?"

  /// The bound that a change goes beyond; nil when it stays within all of them.
  func bound(of bounds: RecordBounds, brokenBy change: Change) throws(StorageError) -> RecordBounds.Kind? {
    let used = try db.first(Self.selectUsage, .id(subject)) { (Int($0.integer(0)), Int($0.integer(1))) } ?? (0, 0)
    var before = RecordBounds.Usage(records: used.0, bytes: used.1, collections: 0)
    var newCollections = 0
    for collection in change.added.keys where try count(in: collection) == 0 { newCollections += 1 }
    if newCollections > 0 {
      before.collections = try db.first(Self.countCollections, .id(subject)) { Int($0.integer(0)) } ?? 0
    }
    let after = RecordBounds.Usage(
      records: before.records + change.records, bytes: before.bytes + change.bytes,
      collections: before.collections + newCollections)
    return bounds.broken(from: before, to: after)
  }

  /// Where APPEND puts a record of this name. Nil when there is no such place.
  func freeName(for name: RecordName, appendedBy id: MigrationID) throws(StorageError) -> RecordName? {
    guard let key = name.key.appended(by: id) else { return nil }
    let free = RecordName(collection: name.collection, key: key)
    let isTaken =
      try db.first(Self.selectLength, .id(subject), .name(free.collection), .key(free.key)) { _ in true } ?? false
    return isTaken ? nil : free
  }

  private static let insert = """
    INSERT INTO records (sub, collection, key, value, number, updated_at, revision, born)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
    """

  private static let update = """
    UPDATE records SET value = ?4, number = ?5, updated_at = ?6, revision = ?7
    WHERE sub = ?1 AND collection = ?2 AND key = ?3
    """

  /// Writes the records in their order. Returns the revision of the first; each has one more than the one before.
  @discardableResult
  func put(_ drafts: [RecordDraft]) throws(StorageError) -> Int64 {
    try put(drafts, change(by: drafts))
  }

  /// `change` is what these records were found to change, in this transaction.
  @discardableResult
  func put(_ drafts: [RecordDraft], _ change: Change) throws(StorageError) -> Int64 {
    guard !drafts.isEmpty else { return 0 }
    let first = try newRevisions(drafts.count, records: change.records, bytes: change.bytes)
    try write(drafts.enumerated().map { ($1, first + Int64($0)) }, change)
    return first
  }

  /// The first of `count` revisions that nothing else has or will have.
  func takeRevisions(_ count: Int) throws(StorageError) -> Int64 {
    try newRevisions(count, records: 0, bytes: 0)
  }

  /// Writes the records with revisions that were taken for them.
  func put(_ drafts: [(RecordDraft, revision: Int64)], _ change: Change) throws(StorageError) {
    guard !drafts.isEmpty else { return }
    _ = try newRevisions(0, records: change.records, bytes: change.bytes)
    try write(drafts, change)
  }

  private func write(_ drafts: [(RecordDraft, revision: Int64)], _ change: Change) throws(StorageError) {
    for ((draft, revision), replaces) in zip(drafts, change.replaces) {
      let (name, content) = (draft.name, draft.content)
      try db.execute(
        replaces ? Self.update : Self.insert, .id(subject), .name(name.collection), .key(name.key),
        .blob(content.value), .integer(content.number), .time(content.updatedAt), .integer(revision))
    }
    for (collection, count) in change.added { try addCount(count, to: collection) }
  }

  private static let selectHeld = """
    SELECT value, number, updated_at, revision, born FROM records WHERE sub = ? AND collection = ? AND key = ?
    """

  /// The record with what tells whether it is still the one that a merge wrote.
  func held(_ name: RecordName) throws(StorageError) -> RecordLayers.Held? {
    try db.first(Self.selectHeld, .id(subject), .name(name.collection), .key(name.key)) { row in
      RecordLayers.Held(content: row.content(0), revision: row.integer(3), born: row.integer(4))
    }
  }

  private static let deleteRecord = "DELETE FROM records WHERE sub = ? AND collection = ? AND key = ?"

  /// Deletes a record that is there.
  func delete(_ record: Record) throws(StorageError) {
    let name = record.name
    _ = try newRevisions(1, records: -1, bytes: -(record.content.value.count + name.bytes))
    try db.execute(Self.deleteRecord, .id(subject), .name(name.collection), .key(name.key))
    try addCount(-1, to: name.collection)
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
  private static let zeroUsage = "UPDATE subjects SET records = 0, bytes = 0 WHERE sub = ?"
  private static let deletePlans = "DELETE FROM plans WHERE guest = ? AND is_started = 0"
  /// What migrations into the subject keep. The records that are set aside are the account's to look at, so they outlive
  /// their guest.
  private static let deleteKept = [
    """
    DELETE FROM moved_records WHERE rowid IN (
      SELECT r.rowid FROM migrations m JOIN moved_records r ON r.migration = m.id WHERE m.target = ?1 LIMIT ?2)
    """,
    """
    DELETE FROM refused_records WHERE rowid IN (
      SELECT r.rowid FROM migrations m JOIN refused_records r ON r.migration = m.id WHERE m.target = ?1 LIMIT ?2)
    """,
    """
    DELETE FROM migration_records WHERE (migration, collection, key) IN (
      SELECT r.migration, r.collection, r.key FROM migrations m JOIN migration_records r ON r.migration = m.id
      WHERE m.target = ?1 LIMIT ?2)
    """,
  ]
  private static let forgetUndo = "UPDATE migrations SET undo_until = NULL WHERE target = ?"

  /// Deletes at most `limit` rows, and with the last ones all else that the subject left here.
  func purge(limit: Int) throws(StorageError) -> PurgedRecords {
    try db.execute(Self.markDeleted, .id(subject))
    let count = try db.execute(Self.deleteSome, .id(subject), .integer(limit))
    var left = limit - count
    for statement in Self.deleteKept where left > 0 {
      left -= try db.execute(statement, .id(subject), .integer(left))
    }
    if left > 0 {
      try forgetCounts()
      for statement in [Self.deletePlans, Self.forgetUndo] { try db.execute(statement, .id(subject)) }
    }
    return PurgedRecords(count: count, isLast: left > 0)
  }

  /// For when the last record is gone.
  func forgetCounts() throws(StorageError) {
    try db.execute(Self.deleteCounts, .id(subject))
    try db.execute(Self.zeroUsage, .id(subject))
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

  private static let selectByKey = """
    SELECT key, value, number, updated_at, revision FROM records
    WHERE sub = ? AND collection = ? AND key > ? ORDER BY key LIMIT ?
    """

  /// In the order of keys, after `key`: as they lie in the file.
  func page(
    of collection: CollectionName, after key: RecordKey?, count: Int, bytes: Int
  ) throws(StorageError) -> RecordPage {
    try page(of: collection, count: count, bytes: bytes) { body throws(StorageError) in
      try db.forEach(
        Self.selectByKey, .id(subject), .name(collection), .text(key?.description ?? ""), .integer(count + 1),
        body: body)
    }
  }

  /// Newest first, beyond `position`.
  func page(
    of collection: CollectionName, beyond position: RecordPosition?, count: Int, bytes: Int
  ) throws(StorageError) -> RecordPage {
    try page(of: collection, count: count, bytes: bytes) { body throws(StorageError) in
      if let position {
        try db.forEach(
          Self.selectNextPage, .id(subject), .name(collection), .time(position.updatedAt), .key(position.key),
          .integer(count + 1), body: body)
      } else {
        try db.forEach(Self.selectFirstPage, .id(subject), .name(collection), .integer(count + 1), body: body)
      }
    }
  }

  /// One record is read ahead to tell whether there are more.
  private func page(
    of collection: CollectionName,
    count: Int,
    bytes: Int,
    forEach: ((SQLiteRow) throws(StorageError) -> Bool) throws(StorageError) -> Void
  ) throws(StorageError) -> RecordPage {
    var records: [Record] = []
    var size = 0
    var hasMore = false
    try forEach { row throws(StorageError) in
      let record = try row.record(0, in: collection)
      size += record.content.value.count + record.name.key.description.utf8.count
      if records.count == count || (size > bytes && !records.isEmpty) {
        hasMore = true
        return false
      }
      records.append(record)
      return true
    }
    return RecordPage(records: records, hasMore: hasMore)
  }
}
