import LatchkeyModel

/// The devices that a subject is signed in on, or that can sign in to it by themselves.
package protocol DeviceStore: Sendable {
  /// The devices with a live session of the subject, or with an unlock of it, the one seen last first.
  func devices(of subject: SubjectID, at now: Timestamp) async throws(StorageError) -> [KnownDevice]

  /// Names one of these devices. False when it is none of them.
  func rename(
    _ keyThumbprint: String, of subject: SubjectID, to label: DisplayText, at now: Timestamp
  ) async throws(StorageError) -> Bool

  /// Puts a new key in the place of the one that the caller's session runs on, as one change.
  func rotate(_ replacement: KeyReplacement, by caller: SessionID) async throws(StorageError) -> KeyRotationOutcome

  /// Gives one of the devices that hold the same key a new one, and begins its guest's session, as one change.
  ///
  /// - Parameter newSubject: who the guest becomes if it is a new one.
  func resolveClone(
    _ replacement: KeyReplacement, _ choice: CloneChoice, newSubject: SubjectID, draft: SessionDraft
  ) async throws(StorageError) -> CloneOutcome

  /// Ends the subject's sessions and unlocks on a device, as one change, in the name of the caller's session.
  func remove(
    _ keyThumbprint: String, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> DeviceRemovalOutcome
}
