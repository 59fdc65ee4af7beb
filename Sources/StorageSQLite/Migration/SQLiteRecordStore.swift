import LatchkeyModel
import Storage

/// The built-in record store in `migrator.db`.
package struct SQLiteRecordStore: RecordStore {
  private let database: SQLiteDatabase

  package init(_ database: SQLiteDatabase) {
    self.database = database
  }

  package func put(
    _ records: [RecordDraft],
    of subject: SubjectID
  ) async throws(StorageError) -> WriteOutcome<Int> {
    try await database.write { db throws(StorageError) in
      let owner = SubjectRecords(subject: subject, db: db)
      let standing = try owner.standing()
      if standing.isMigrated { return .migrated }
      if standing.migration != nil { return .migrating }
      try owner.put(records)
      return .done(records.count)
    }
  }

  package func record(_ name: RecordName, of subject: SubjectID) async throws(StorageError) -> Record? {
    try await database.read { db throws(StorageError) in
      try SubjectRecords(subject: subject, db: db).record(name)
    }
  }

  package func records(
    in collection: CollectionName,
    of subject: SubjectID,
    beyond position: RecordPosition?,
    count: Int,
    bytes: Int
  ) async throws(StorageError) -> RecordPage {
    try await database.read { db throws(StorageError) in
      try SubjectRecords(subject: subject, db: db).page(of: collection, beyond: position, count: count, bytes: bytes)
    }
  }

  package func delete(
    _ name: RecordName,
    revision: Int64?,
    of subject: SubjectID
  ) async throws(StorageError) -> WriteOutcome<DeleteOutcome> {
    try await database.write { db throws(StorageError) in
      let owner = SubjectRecords(subject: subject, db: db)
      let standing = try owner.standing()
      if standing.isMigrated { return .migrated }
      if standing.migration != nil { return .migrating }
      guard let current = try owner.record(name) else { return .done(.notFound) }
      if let revision, revision != current.revision { return .done(.revisionMismatch(current: current.revision)) }
      try owner.delete(name)
      return .done(.deleted)
    }
  }

  package func collections(of subject: SubjectID) async throws(StorageError) -> [CollectionCount] {
    try await database.read { db throws(StorageError) in
      try SubjectRecords(subject: subject, db: db).counts()
    }
  }
}
