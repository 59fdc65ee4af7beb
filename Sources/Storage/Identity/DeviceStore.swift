import LatchkeyModel

/// The devices that a subject's sessions run on.
package protocol DeviceStore: Sendable {
  /// The devices with a live session of the subject, the one seen last first.
  func devices(of subject: SubjectID, at now: Timestamp) async throws(StorageError) -> [KnownDevice]

  /// Names a device that has a live session of the subject. False when there is none.
  func rename(
    _ keyThumbprint: String, of subject: SubjectID, to label: DisplayText, at now: Timestamp
  ) async throws(StorageError) -> Bool

  /// Ends the subject's sessions on a device, as one change, in the name of the caller's session.
  func remove(
    _ keyThumbprint: String, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> DeviceRemovalOutcome
}
