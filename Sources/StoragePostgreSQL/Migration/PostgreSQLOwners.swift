import LatchkeyModel
import Storage

/// The table `subjects`.
struct PostgreSQLOwners: RecordOwnerRows {
  let db: PostgreSQLConnection

  private static let select = """
    SELECT version, records, bytes, migration, is_migrated, is_deleted, is_guest FROM subjects WHERE sub = $1
    """
  private static let selectLocked = "\(select) FOR UPDATE"

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> RecordOwner {
    var owner = RecordOwner()
    owner.version = row.integer(0)
    owner.records = Int(row.integer(1))
    owner.bytes = Int(row.integer(2))
    owner.migration = try row.optionalID(3)
    owner.isMigrated = row.boolean(4)
    owner.isDeleted = row.boolean(5)
    owner.isGuest = row.boolean(6)
    return owner
  }

  func find(_ id: SubjectID) async throws(StorageError) -> RecordOwner? {
    try await db.first(Self.select, .id(id), map: Self.map)
  }

  func lock(_ id: SubjectID) async throws(StorageError) -> RecordOwner? {
    try await db.lock("subjects", .id(id))
    return try await db.first(Self.selectLocked, .id(id), map: Self.map)
  }

  private static let selectUsage = "SELECT coalesce(sum(bytes), 0)::bigint FROM guest_usage"

  func costOfGuests() async throws(StorageError) -> Int {
    Int(try await db.first(Self.selectUsage) { $0.integer(0) } ?? 0)
  }

  // The row as it was is the one before this statement: whoever stores it has it locked.
  private static let upsert = """
    WITH change AS (
      SELECT CASE WHEN $8::boolean THEN $4::bigint + 256 * $3::bigint ELSE 0 END
        - coalesce((SELECT bytes + 256 * records FROM subjects WHERE sub = $1 AND is_guest), 0) AS bytes
    ), usage AS (
      INSERT INTO guest_usage (part, bytes) SELECT pg_backend_pid() % \(Limits.guestUsageParts), bytes FROM change
      WHERE bytes <> 0
      ON CONFLICT (part) DO UPDATE SET bytes = guest_usage.bytes + excluded.bytes
    )
    INSERT INTO subjects (sub, version, records, bytes, migration, is_migrated, is_deleted, is_guest)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (sub) DO UPDATE SET version = excluded.version, records = excluded.records, bytes = excluded.bytes,
      migration = excluded.migration, is_migrated = excluded.is_migrated, is_deleted = excluded.is_deleted,
      is_guest = excluded.is_guest
    """

  func put(_ owner: RecordOwner, _ id: SubjectID) async throws(StorageError) {
    try await db.execute(
      Self.upsert, .id(id), .integer(owner.version), .integer(owner.records), .integer(owner.bytes),
      .optional(owner.migration?.bytes), .boolean(owner.isMigrated), .boolean(owner.isDeleted),
      .boolean(owner.isGuest))
  }
}

/// The table `collections`.
struct PostgreSQLCounts: CollectionCountRows {
  let db: PostgreSQLConnection

  private static let selectOne = "SELECT records FROM collections WHERE sub = $1 AND name = $2"

  func find(_ collection: CollectionName, of subject: SubjectID) async throws(StorageError) -> Int {
    Int(try await db.first(Self.selectOne, .id(subject), .name(collection)) { $0.integer(0) } ?? 0)
  }

  private static let selectAll = "SELECT name, records FROM collections WHERE sub = $1 ORDER BY name"

  func all(of subject: SubjectID) async throws(StorageError) -> [CollectionCount] {
    try await db.all(Self.selectAll, .id(subject)) { row throws(StorageError) in
      CollectionCount(collection: try row.collection(0), count: Int(row.integer(1)))
    }
  }

  private static let selectCount = "SELECT count(*) FROM collections WHERE sub = $1"

  func count(of subject: SubjectID) async throws(StorageError) -> Int {
    Int(try await db.first(Self.selectCount, .id(subject)) { $0.integer(0) } ?? 0)
  }

  private static let upsert = """
    INSERT INTO collections (sub, name, records) VALUES ($1, $2, $3)
    ON CONFLICT (sub, name) DO UPDATE SET records = excluded.records
    """
  private static let deleteOne = "DELETE FROM collections WHERE sub = $1 AND name = $2"

  func put(_ count: Int, _ collection: CollectionName, of subject: SubjectID) async throws(StorageError) {
    if count == 0 {
      try await db.execute(Self.deleteOne, .id(subject), .name(collection))
    } else {
      try await db.execute(Self.upsert, .id(subject), .name(collection), .integer(count))
    }
  }

  private static let deleteAll = "DELETE FROM collections WHERE sub = $1"

  func remove(of subject: SubjectID) async throws(StorageError) {
    try await db.execute(Self.deleteAll, .id(subject))
  }
}
