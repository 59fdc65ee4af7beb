import LatchkeyModel

/// Wishes to move a guest's data into an account, by their ids. A guest has at most one that is open.
package protocol MergeRows {
  func find(_ id: MergeID) async throws(StorageError) -> PendingMerge?

  /// The one of a guest that is neither completed nor abandoned.
  func open(of guest: SubjectID) async throws(StorageError) -> PendingMerge?

  /// Makes a wish that is offered to the migrator from `dueAt` on.
  func insert(_ merge: PendingMerge, dueAt: Timestamp, at now: Timestamp) async throws(StorageError)

  /// Stores the sessions that a wish is for.
  func changeSessions(of merge: PendingMerge, at now: Timestamp) async throws(StorageError)
}
