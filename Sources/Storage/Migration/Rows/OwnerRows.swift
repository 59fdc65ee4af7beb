import LatchkeyModel

/// Who has records, or had, by their ids.
package protocol RecordOwnerRows {
  func find(_ id: SubjectID) async throws(StorageError) -> RecordOwner?

  func lock(_ id: SubjectID) async throws(StorageError) -> RecordOwner?

  /// What those store together who are guests, as ``RecordBounds/cost(records:bytes:)`` counts it. It may be a moment old.
  func costOfGuests() async throws(StorageError) -> Int

  /// Stores it, in the place of an earlier one.
  func put(_ owner: RecordOwner, _ id: SubjectID) async throws(StorageError)
}

/// What is known of a subject's records without reading them.
package struct RecordOwner: Sendable, Equatable {
  /// Grows with every change of the records: the revision that was given last.
  package var version: Int64 = 0
  package var records = 0
  /// Of values and names.
  package var bytes = 0
  /// Freezes the records.
  package var migration: MigrationID?
  /// The records are an account's, or on their way there for good.
  package var isMigrated = false
  package var isDeleted = false
  /// As the last write of records said.
  package var isGuest = false

  /// Of somebody who never had any.
  package init() {}
}

/// How many records a subject has of each collection. Of a collection with none there is no row.
package protocol CollectionCountRows {
  /// 0 for none.
  func find(_ collection: CollectionName, of subject: SubjectID) async throws(StorageError) -> Int

  /// In the order of names.
  func all(of subject: SubjectID) async throws(StorageError) -> [CollectionCount]

  /// How many collections there are.
  func count(of subject: SubjectID) async throws(StorageError) -> Int

  /// A negative count is a ``StorageError``.
  func put(_ count: Int, _ collection: CollectionName, of subject: SubjectID) async throws(StorageError)

  func remove(of subject: SubjectID) async throws(StorageError)
}
