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
    of subject: SubjectID,
    within bounds: RecordBounds
  ) async throws(StorageError) -> WriteOutcome<Int> {
    try await database.write { db throws(StorageError) in
      let owner = SubjectRecords(subject: subject, db: db)
      if let refusal = try owner.standing().refusal(Int.self) { return refusal }
      let change = try owner.change(by: records)
      if let kind = try owner.bound(of: bounds, brokenBy: change) { return .full(kind) }
      try owner.put(records, change)
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
      if let refusal = try owner.standing().refusal(DeleteOutcome.self) { return refusal }
      guard let current = try owner.record(name) else { return .done(.notFound) }
      if let revision, revision != current.revision { return .done(.revisionMismatch(current: current.revision)) }
      try owner.delete(current)
      return .done(.deleted)
    }
  }

  package func summary(of subject: SubjectID) async throws(StorageError) -> (count: Int, version: Int64) {
    try await database.read { db throws(StorageError) in
      let owner = SubjectRecords(subject: subject, db: db)
      return (try owner.counts().reduce(0) { $0 + $1.count }, try owner.standing().version)
    }
  }

  package func purge(_ subject: SubjectID, limit: Int) async throws(StorageError) -> WriteOutcome<PurgedRecords> {
    try await database.write { db throws(StorageError) in
      let owner = SubjectRecords(subject: subject, db: db)
      let standing = try owner.standing()
      // Records on their way from here or to here would be made again by the migration's next step.
      if standing.migration != nil && !standing.isMigrated { return .migrating }
      if try owner.isTarget() { return .migrating }
      return .done(try owner.purge(limit: limit))
    }
  }

  package func collections(of subject: SubjectID) async throws(StorageError) -> [CollectionCount] {
    try await database.read { db throws(StorageError) in
      try SubjectRecords(subject: subject, db: db).counts()
    }
  }
}
