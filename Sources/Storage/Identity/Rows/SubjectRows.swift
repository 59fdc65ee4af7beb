import LatchkeyModel

/// Guests and accounts, by their ids.
package protocol SubjectRows {
  func find(_ id: SubjectID) async throws(StorageError) -> Subject?

  func lock(_ id: SubjectID) async throws(StorageError) -> Subject?

  /// With what only its keepers look at.
  func standing(of id: SubjectID) async throws(StorageError) -> SubjectStanding?

  func countGuests() async throws(StorageError) -> Int

  /// At most `limit` guests that were last used before a time, in the order of that and of their ids, beginning after
  /// `last`.
  func unusedGuests(
    before time: Timestamp, after last: UnusedGuest?, limit: Int
  ) async throws(StorageError) -> [UnusedGuest]

  func insert(_ subject: Subject) async throws(StorageError)

  /// Stores the kind and the profile, and when the subject was used.
  func change(_ subject: Subject, usedAt now: Timestamp) async throws(StorageError)

  /// Stores when the subject was used.
  func change(_ id: SubjectID, usedAt now: Timestamp) async throws(StorageError)

  /// Nil for a subject that is let in again.
  func change(_ id: SubjectID, disabledAt time: Timestamp?) async throws(StorageError)

  /// Stores when all of a subject's data was handed out, and in which version its records.
  func change(_ id: SubjectID, exportedAt time: Timestamp, recordsVersion: Int64) async throws(StorageError)

  /// From then on it is deleted, and has no profile.
  func change(_ id: SubjectID, deletedAt time: Timestamp) async throws(StorageError)
}

/// Deleted subjects whose records are yet to be purged, by their ids.
package protocol PurgeRows {
  func lock(_ subject: SubjectID) async throws(StorageError) -> PendingPurge?

  /// At most `limit` of those that are due, the one due first at the front.
  func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge]

  /// The same for an operation that takes them. Operations at the same time get different ones: what another has locked
  /// is left out.
  func lockDue(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge]

  func insert(_ subject: SubjectID, dueAt: Timestamp) async throws(StorageError)

  func change(_ subject: SubjectID, attempts: Int64, dueAt: Timestamp) async throws(StorageError)

  func remove(_ subject: SubjectID) async throws(StorageError)
}
