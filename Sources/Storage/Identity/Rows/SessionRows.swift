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

  func insert(_ session: Session) async throws(StorageError)

  /// Stores the refresh family.
  func changeFamily(of session: Session) async throws(StorageError)

  /// Stores the refresh family, when its owner proved who they are, and when they stood by it.
  func change(_ session: Session) async throws(StorageError)

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

  /// A subject's that have not ended on a device go on under another key of it. Returns how many.
  func changeDevice(
    of subject: SubjectID, _ keyThumbprint: String, to other: String
  ) async throws(StorageError) -> Int

  /// The device of a session of the subject that ended at this very time for this reason.
  func device(
    of subject: SubjectID, leftAt time: Timestamp, because why: Session.End
  ) async throws(StorageError) -> String?
}
