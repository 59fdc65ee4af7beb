import LatchkeyModel
import Storage

/// One record of somebody.
package struct FindRecord: MigrationOperation {
  package static let name = "find a record"

  package var record: RecordName
  package var subject: SubjectID

  package init(_ record: RecordName, of subject: SubjectID) {
    self.record = record
    self.subject = subject
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> Record? {
    let held = try await rows.records.find(record, of: subject)
    return held.map { Record(name: record, content: $0.content, revision: $0.revision) }
  }
}

/// At most `count` records, newest first, beyond `position`. Names and values hold at most `bytes` together, except that
/// there is at least one record when there are any.
package struct ListRecords: MigrationOperation {
  package static let name = "list records"

  package var collection: CollectionName
  package var subject: SubjectID
  package var position: RecordPosition?
  package var count: Int
  package var bytes: Int

  package init(
    in collection: CollectionName, of subject: SubjectID, beyond position: RecordPosition?, count: Int, bytes: Int
  ) {
    self.collection = collection
    self.subject = subject
    self.position = position
    self.count = count
    self.bytes = bytes
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> RecordPage {
    try await rows.records.page(
      collection, of: subject, in: .newest(beyond: position), count: count, bytes: bytes)
  }
}

/// Whether what somebody stores counts as a guest's.
package struct CountsAsGuest: MigrationOperation {
  package static let name = "look who stores"

  package var subject: SubjectID

  package init(_ subject: SubjectID) {
    self.subject = subject
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> Bool {
    try await rows.owners.find(subject)?.isGuest ?? false
  }
}

/// What all guests store together, as ``RecordBounds/cost(records:bytes:)`` counts it.
package struct CountGuestBytes: MigrationOperation {
  package static let name = "count what guests store"

  package init() {}

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> Int {
    try await rows.owners.costOfGuests()
  }
}

/// How many records somebody has, of each collection, and how often they were changed.
package struct CountRecords: MigrationOperation {
  package static let name = "count records"

  package var subject: SubjectID

  package init(of subject: SubjectID) {
    self.subject = subject
  }

  package struct Summary: Sendable, Equatable {
    package var version: Int64
    /// Those that have records, in the order of their names.
    package var collections: [CollectionCount]

    package var count: Int { collections.reduce(0) { $0 + $1.count } }
  }

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> Summary {
    Summary(
      version: try await rows.owners.find(subject)?.version ?? 0,
      collections: try await rows.counts.all(of: subject))
  }
}
