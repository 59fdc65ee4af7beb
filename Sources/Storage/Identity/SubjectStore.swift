import LatchkeyModel

/// Guests and accounts as such: what is on record of them, who may not sign in, and who is to be forgotten.
package protocol SubjectStore: Sendable {
  func standing(of subject: SubjectID) async throws(StorageError) -> SubjectStanding?

  /// The guest or account behind an identifier.
  func owner(of identifier: AccountIdentifier) async throws(StorageError) -> SubjectID?

  /// Deletes for good: ends every session, removes what is on record, and notes that the records are to be purged. The
  /// id stays, so that nobody else gets it.
  func delete(_ deletion: SubjectDeletion) async throws(StorageError) -> DeletionOutcome

  /// Ends every session of a subject and lets none begin, or lets them begin again. Nil when there is no such guest or
  /// account; otherwise how many sessions ended.
  func setDisabled(
    _ isDisabled: Bool, _ subject: SubjectID, detail: String, at now: Timestamp
  ) async throws(StorageError) -> Int?

  /// Ends every session of a subject; nil when there is no such guest or account.
  func endSessions(of subject: SubjectID, detail: String, at now: Timestamp) async throws(StorageError) -> Int?

  /// Ends at most `limit` sessions, whoever they are of. Returns how many.
  func endSessions(begunUntil time: Timestamp, limit: Int, at now: Timestamp) async throws(StorageError) -> Int

  /// All of the subject's data was handed out, its records in this version.
  func noteExport(of subject: SubjectID, recordsVersion: Int64, at now: Timestamp) async throws(StorageError)

  /// How many guests there are. Cost: counts all of them, so it is asked by upkeep and by no call.
  func guestCount() async throws(StorageError) -> Int

  /// Guests that were last used before a time, in the order of that.
  func unusedGuests(
    before time: Timestamp, after last: UnusedGuest?, limit: Int
  ) async throws(StorageError) -> [UnusedGuest]

  /// Deleted subjects whose records are to be purged now.
  func duePurges(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge]

  func purged(_ subject: SubjectID) async throws(StorageError)

  /// Tries again not before `next`.
  func postponePurge(of subject: SubjectID, until next: Timestamp) async throws(StorageError)
}
