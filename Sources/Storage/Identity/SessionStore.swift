import LatchkeyModel

/// Sessions: signed-in devices with their refresh-token families.
package protocol SessionStore: Sendable {
  func session(_ id: SessionID) async throws(StorageError) -> Session?

  /// The live sessions of a subject, at most `limit`, the newest first.
  func live(of subject: SubjectID, at now: Timestamp, limit: Int) async throws(StorageError) -> [Session]

  /// Ends one session of the caller's own, as one change.
  func revoke(
    _ id: SessionID, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> OwnSessionOutcome

  /// Says of one of the caller's own sessions that it is the owner's, as one change.
  func confirm(
    _ id: SessionID, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> OwnSessionOutcome

  /// Notes that a session's owner proved who they are in it, as one change; what proves it holds once.
  func stepUp(_ stepUp: StepUp) async throws(StorageError) -> StepUp.Outcome

  /// Whether a code or a transfer let the session's device in and nobody proved in it since who they are: then what the
  /// device's key signs is not its owner's word. False for an unknown session.
  func isLetIn(_ id: SessionID) async throws(StorageError) -> Bool

  /// Uses a refresh token: rotates the family, repeats its newest token, or ends it, as one change.
  ///
  /// - Parameter isGenuine: whether the token was made for this session, by the session's seed. Called on the store's
  ///   thread, once; nothing changes unless it says yes.
  func refresh(
    _ id: SessionID,
    generation: Int64,
    at now: Timestamp,
    lifetimes: TokenLifetimes,
    isGenuine: @escaping @Sendable (Session) -> Bool
  ) async throws(StorageError) -> RefreshOutcome

  /// Ends one session. False when it had ended before or never was. Idempotent.
  func end(_ id: SessionID, because why: Session.End, at now: Timestamp) async throws(StorageError) -> Bool

  /// The sessions that ended at `since` or later.
  func ended(since: Timestamp) async throws(StorageError) -> [EndedSession]

  /// Ends sessions of the caller and begins the device's guest session, as one change.
  func logOut(_ logOut: LogOut) async throws(StorageError) -> LogOutOutcome

  /// Forgets a bounded number of sessions with what codes granted them, of failed tries and of merges from before
  /// `before`, and of challenges, tickets and transfers that have expired. Returns how many.
  func purge(endedBefore before: Timestamp, at now: Timestamp, limit: Int) async throws(StorageError) -> Int
}
