import LatchkeyModel

/// Sessions, by their ids.
package protocol SessionRows {
  func find(_ id: SessionID) async throws(StorageError) -> Session?

  func lock(_ id: SessionID) async throws(StorageError) -> Session?

  /// Those of a subject that are live, at most `limit`, the newest first.
  func live(of subject: SubjectID, at now: Timestamp, limit: Int) async throws(StorageError) -> [Session]

  /// Whether an account has, or had within what is kept, a session on the device with this key.
  func wasUsed(_ account: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Bool

  /// The one of a subject on a device that began last, ended or not.
  func newest(of subject: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Session?

  /// When one of a subject's that have not ended was renewed last; nil when there is none. Until the operation ends none
  /// of them is renewed.
  func lastRotation(of subject: SubjectID) async throws(StorageError) -> Timestamp?

  func insert(_ session: Session) async throws(StorageError)

  /// Stores the refresh family.
  func changeFamily(of session: Session) async throws(StorageError)

  /// Stores the refresh family, when its owner proved who they are, and when they stood by it.
  func change(_ session: Session) async throws(StorageError)

  /// Stores what the device of a subject's live sessions is called. Returns how many they are.
  func change(
    of subject: SubjectID, onDevice keyThumbprint: String, label: DisplayText, at now: Timestamp
  ) async throws(StorageError) -> Int

  /// Ends one. Nil when it had ended or never was.
  func end(_ id: SessionID, because why: Session.End, at now: Timestamp) async throws(StorageError) -> EndedSession?

  /// Ends those of a subject that have not ended, but one.
  func end(
    of subject: SubjectID, except kept: SessionID?, because why: Session.End, at now: Timestamp
  ) async throws(StorageError) -> [EndedSession]

  /// Ends those of a subject on a device that have not ended.
  func end(
    of subject: SubjectID, onDevice keyThumbprint: String, because why: Session.End, at now: Timestamp
  ) async throws(StorageError) -> [EndedSession]

  /// Ends at most `limit` of those that are not over and began until a time, whoever they are of.
  func end(
    begunUntil time: Timestamp, limit: Int, because why: Session.End, at now: Timestamp
  ) async throws(StorageError) -> [EndedSession]

  /// A subject's that have not ended on a device go on under another key of it. Returns how many.
  func changeDevice(
    of subject: SubjectID, _ keyThumbprint: String, to other: String
  ) async throws(StorageError) -> Int

  /// The device of a session of the subject that ended at this very time for this reason.
  func device(
    of subject: SubjectID, leftAt time: Timestamp, because why: Session.End
  ) async throws(StorageError) -> String?

  /// Those that ended at a time or later.
  func ended(since time: Timestamp) async throws(StorageError) -> [EndedSession]

  /// At most `limit` of those that ended before a time, and as many of those that expired before it, the oldest first:
  /// with the grants that began them and with what they came of. Returns how many rows went.
  func remove(overBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}
