import LatchkeyModel

/// Where QR sessions last. The row is the truth of a session; what a service keeps in memory is a copy.
///
/// Every write is durable when it returns.
package protocol QRSessionStore: Sendable {
  /// Counts of guesses where several processes share the rows; nil where one has them, which counts by itself.
  var guesses: (any GuessCounts)? { get }

  /// Stores a new session. Fails with a unique violation when a code of it is in use: draw new codes and try again.
  func insert(_ session: QRSession) async throws(StorageError)

  /// Puts `session` in place of `before`, the value it was made from: only if the stored row still has its version and
  /// state and, when that state ends by time, its time is not over at `now`. False when somebody was faster.
  func exchange(_ before: QRSession, for session: QRSession, at now: Timestamp) async throws(StorageError) -> Bool

  func session(_ id: QRSessionID) async throws(StorageError) -> QRSession?
  func session(reference: Digest256) async throws(StorageError) -> QRSession?
  func session(userCode: Digest256) async throws(StorageError) -> QRSession?
  func session(pollSecret: Digest256) async throws(StorageError) -> QRSession?

  /// Sessions whose time ends after `time`, in the order of their ids, beginning after `id`: a page for whoever loads
  /// them all.
  func sessions(
    expiringAfter time: Timestamp,
    following id: QRSessionID?,
    limit: Int
  ) async throws(StorageError) -> [QRSession]

  /// Forgets up to `limit` sessions: those redeemed whose time ended before `redeemedBefore`, which are kept to tell
  /// reuse from ignorance, and all others whose time ended before `othersBefore`. Returns how many there were.
  func removeSessions(
    redeemedBefore: Timestamp,
    othersBefore: Timestamp,
    limit: Int
  ) async throws(StorageError) -> Int
}

extension QRSessionStore {
  package var guesses: (any GuessCounts)? { nil }
}
