import LatchkeyModel

/// Guests and accounts, by their ids.
package protocol SubjectRows {
  func find(_ id: SubjectID) async throws(StorageError) -> Subject?

  func lock(_ id: SubjectID) async throws(StorageError) -> Subject?

  func insert(_ subject: Subject) async throws(StorageError)

  /// Stores the kind and the profile, and when the subject was used.
  func change(_ subject: Subject, usedAt now: Timestamp) async throws(StorageError)

  /// Stores when the subject was used.
  func change(_ id: SubjectID, usedAt now: Timestamp) async throws(StorageError)
}
