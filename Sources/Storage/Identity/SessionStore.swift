import LatchkeyModel

/// Sessions: signed-in devices with their refresh-token families.
package protocol SessionStore: Sendable {
  func session(_ id: SessionID) async throws(StorageError) -> Session?

  /// The live sessions of a subject, at most `limit`, the newest first.
  func live(of subject: SubjectID, at now: Timestamp, limit: Int) async throws(StorageError) -> [Session]

  /// The sessions that ended at `since` or later.
  func ended(since: Timestamp) async throws(StorageError) -> [EndedSession]

  /// Forgets a bounded number of sessions with what codes granted them, of failed tries and of merges from before
  /// `before`, and of challenges, tickets and transfers that have expired. Returns how many.
  func purge(endedBefore before: Timestamp, at now: Timestamp, limit: Int) async throws(StorageError) -> Int
}
