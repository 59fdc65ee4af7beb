import LatchkeyModel
import Storage

/// The table `subjects`.
struct SQLiteOwners: RecordOwnerRows {
  let db: SQLiteConnection

  private static let select = """
    SELECT version, records, bytes, migration, is_migrated, is_deleted, is_guest FROM subjects WHERE sub = ?
    """

  func find(_ id: SubjectID) throws(StorageError) -> RecordOwner? {
    try db.first(Self.select, .id(id)) { row throws(StorageError) in
      var owner = RecordOwner()
      owner.version = row.integer(0)
      owner.records = Int(row.integer(1))
      owner.bytes = Int(row.integer(2))
      owner.migration = row.isNull(3) ? nil : try row.opaqueID(3)
      owner.isMigrated = row.boolean(4)
      owner.isDeleted = row.boolean(5)
      owner.isGuest = row.boolean(6)
      return owner
    }
  }

  func lock(_ id: SubjectID) throws(StorageError) -> RecordOwner? { try find(id) }

  // Triggers keep the sum.
  private static let selectUsage = "SELECT bytes FROM guest_usage"

  func costOfGuests() throws(StorageError) -> Int {
    Int(try db.first(Self.selectUsage) { $0.integer(0) } ?? 0)
  }

  private static let upsert = """
    INSERT INTO subjects (sub, version, records, bytes, migration, is_migrated, is_deleted, is_guest)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (sub) DO UPDATE SET version = ?2, records = ?3, bytes = ?4, migration = ?5, is_migrated = ?6,
      is_deleted = ?7, is_guest = ?8
    """

  func put(_ owner: RecordOwner, _ id: SubjectID) throws(StorageError) {
    try db.execute(
      Self.upsert, .id(id), .integer(owner.version), .integer(owner.records), .integer(owner.bytes),
      .optional(owner.migration?.bytes), .boolean(owner.isMigrated), .boolean(owner.isDeleted),
      .boolean(owner.isGuest))
  }
}

/// The table `collections`.
struct SQLiteCounts: CollectionCountRows {
  let db: SQLiteConnection

  private static let selectOne = "SELECT records FROM collections WHERE sub = ? AND name = ?"

  func find(_ collection: CollectionName, of subject: SubjectID) throws(StorageError) -> Int {
    Int(try db.first(Self.selectOne, .id(subject), .name(collection)) { $0.integer(0) } ?? 0)
  }

  private static let selectAll = "SELECT name, records FROM collections WHERE sub = ? ORDER BY name"

  func all(of subject: SubjectID) throws(StorageError) -> [CollectionCount] {
    try db.all(Self.selectAll, .id(subject)) { row throws(StorageError) in
      CollectionCount(collection: try row.collection(0), count: Int(row.integer(1)))
    }
  }

  private static let selectCount = "SELECT count(*) FROM collections WHERE sub = ?"

  func count(of subject: SubjectID) throws(StorageError) -> Int {
    Int(try db.first(Self.selectCount, .id(subject)) { $0.integer(0) } ?? 0)
  }

  private static let upsert = """
    INSERT INTO collections (sub, name, records) VALUES (?1, ?2, ?3) ON CONFLICT (sub, name) DO UPDATE SET records = ?3
    """
  private static let deleteOne = "DELETE FROM collections WHERE sub = ? AND name = ?"

  func put(_ count: Int, _ collection: CollectionName, of subject: SubjectID) throws(StorageError) {
    if count == 0 {
      try db.execute(Self.deleteOne, .id(subject), .name(collection))
    } else {
      try db.execute(Self.upsert, .id(subject), .name(collection), .integer(count))
    }
  }

  private static let deleteAll = "DELETE FROM collections WHERE sub = ?"

  func remove(of subject: SubjectID) throws(StorageError) { try db.execute(Self.deleteAll, .id(subject)) }
}
