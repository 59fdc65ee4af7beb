import LatchkeyModel

/// Wishes to move a guest's data into an account, by their ids. A guest has at most one that is open.
package protocol MergeRows {
  func find(_ id: MergeID) async throws(StorageError) -> PendingMerge?

  func lock(_ id: MergeID) async throws(StorageError) -> PendingMerge?

  /// The one of a guest that is neither completed nor abandoned.
  func open(of guest: SubjectID) async throws(StorageError) -> PendingMerge?

  /// At most `limit` of those that are wanted and due, the one due first at the front.
  func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge]

  /// The same for an operation that takes them. Operations at the same time get different ones: what another has locked
  /// is left out.
  func lockDue(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge]

  /// Makes a wish that is offered to the migrator from `dueAt` on.
  func insert(_ merge: PendingMerge, dueAt: Timestamp, at now: Timestamp) async throws(StorageError)

  /// Stores the sessions that a wish is for.
  func changeSessions(of merge: PendingMerge, at now: Timestamp) async throws(StorageError)

  func change(_ id: MergeID, plan: PendingMerge.Plan?) async throws(StorageError)

  /// Stores how far a wish has come: its state, its migration and what went wrong last.
  func change(_ merge: PendingMerge, at now: Timestamp) async throws(StorageError)

  /// Stores that it was offered: how often, what went wrong last, and when it is due again.
  func change(_ merge: PendingMerge, dueAt: Timestamp) async throws(StorageError)

  /// At most `limit` of those that are completed or abandoned and unchanged since a time, the oldest first. Returns how
  /// many.
  func remove(overBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}

/// The devices that guests were on when they became parts of accounts, by guest and device, and the migrations by which
/// they became so and that were taken back.
package protocol MergedGuestRows {
  func devices(of guest: SubjectID) async throws(StorageError) -> [String]

  func put(_ guest: SubjectID, onDevice keyThumbprint: String, at now: Timestamp) async throws(StorageError)

  func remove(of guest: SubjectID) async throws(StorageError)

  /// At most `limit` of those from before a time, the oldest first. Returns how many. What was taken back stays.
  func remove(before time: Timestamp, limit: Int) async throws(StorageError) -> Int

  /// Whether a migration of the guest was taken back.
  func isRecalled(_ migration: String, of guest: SubjectID) async throws(StorageError) -> Bool

  /// A migration of the guest is taken back for good. Noted once, however often it is said.
  func recall(_ migration: String, of guest: SubjectID, at now: Timestamp) async throws(StorageError)

  /// Forgets what was taken back of a guest that is gone.
  func removeRecalls(of guest: SubjectID) async throws(StorageError)
}
