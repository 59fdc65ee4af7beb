import LatchkeyModel

/// The devices that a subject is signed in on, or that can sign in to it by themselves.
package protocol DeviceStore: Sendable {
  /// The devices with a live session of the subject, or with an unlock of it, the one seen last first.
  func devices(of subject: SubjectID, at now: Timestamp) async throws(StorageError) -> [KnownDevice]

  /// Names one of these devices. False when it is none of them.
  func rename(
    _ keyThumbprint: String, of subject: SubjectID, to label: DisplayText, at now: Timestamp
  ) async throws(StorageError) -> Bool
}
