import LatchkeyModel

/// What unlocks accounts on single devices.
package protocol UnlockStore: Sendable {
  /// Enrols an unlock on the caller's device, as one change. Of one device's patterns the newest holds.
  func enrol(_ enrolment: UnlockEnrolment) async throws(StorageError) -> UnlockEnrolment.Outcome

  func unlocks(of account: SubjectID) async throws(StorageError) -> [Unlock]

  /// The key's unlock, with the account as its owner recognises it.
  func key(_ keyThumbprint: String) async throws(StorageError) -> (unlock: Unlock, mask: String)?

  /// The pattern of a device, for one try, which is counted before it is made. Nil when there is none, or when its tries
  /// are used up.
  func tryPattern(_ keyThumbprint: String) async throws(StorageError) -> (unlock: Unlock, mask: String)?

  /// The try was not made after all: the pattern has it again.
  func patternNotTried(_ keyThumbprint: String) async throws(StorageError)

  /// The pattern was right: its tries begin anew.
  func patternHeld(_ keyThumbprint: String) async throws(StorageError)

  /// False when the account has no such unlock.
  func remove(_ unlock: Unlock, at now: Timestamp) async throws(StorageError) -> Bool
}
