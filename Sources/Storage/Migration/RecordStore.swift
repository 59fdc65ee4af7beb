import LatchkeyModel

/// What people made in an app, by subject, collection and key.
///
/// Errors: ``StorageError``. Every write is durable when it returns, or did not happen.
package protocol RecordStore: Sendable {
  /// Writes all of `records`, or none. Records of the same name take each other's place. What the subject stores is
  /// compared with `bounds` in the same transaction.
  func put(
    _ records: [RecordDraft],
    of subject: SubjectID,
    within bounds: RecordBounds
  ) async throws(StorageError) -> WriteOutcome<Int>

  func record(_ name: RecordName, of subject: SubjectID) async throws(StorageError) -> Record?

  /// At most `count` records, newest first, beyond `position`. Their values hold at most `bytes` together, except that
  /// there is at least one record when there are any.
  func records(
    in collection: CollectionName,
    of subject: SubjectID,
    beyond position: RecordPosition?,
    count: Int,
    bytes: Int
  ) async throws(StorageError) -> RecordPage

  /// Deletes the record. With `revision`, only a record that still has it.
  func delete(
    _ name: RecordName,
    revision: Int64?,
    of subject: SubjectID
  ) async throws(StorageError) -> WriteOutcome<DeleteOutcome>

  /// How many records the subject has, and how often they were changed.
  func summary(of subject: SubjectID) async throws(StorageError) -> (count: Int, version: Int64)

  /// Deletes at most `limit` records of a subject that was deleted, with what migrations keep of them, and refuses every
  /// change of them from now on.
  func purge(_ subject: SubjectID, limit: Int) async throws(StorageError) -> WriteOutcome<PurgedRecords>

  /// The collections in which the subject has records, with how many.
  func collections(of subject: SubjectID) async throws(StorageError) -> [CollectionCount]
}
