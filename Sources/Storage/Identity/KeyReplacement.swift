import LatchkeyModel

/// A device that held one key and proved another one.
package struct KeyReplacement: Sendable {
  package var oldKey: String
  package var device: DeviceRegistration
  package var challengeHash: [UInt8]
  package var challengeExpiry: Timestamp
  package var address: String
  package var now: Timestamp

  package init(
    oldKey: String,
    device: DeviceRegistration,
    challengeHash: [UInt8],
    challengeExpiry: Timestamp,
    address: String,
    now: Timestamp
  ) {
    self.oldKey = oldKey
    self.device = device
    self.challengeHash = challengeHash
    self.challengeExpiry = challengeExpiry
    self.address = address
    self.now = now
  }
}

/// What came of replacing a device's key.
package enum KeyRotationOutcome: Sendable, Equatable {
  case rotated(sessionsMoved: Int)
  case challengeUsed
  /// The caller's session has ended, or runs on another device.
  case otherDevice
  /// The new key has sessions or a guest of its own.
  case keyInUse
  /// Two devices hold the old key.
  case cloned
}

/// Who takes what when two devices hold one key.
package enum CloneChoice: Sendable, Equatable {
  /// The caller becomes a new guest.
  case split
  /// The guest is the caller's.
  case transfer
}

/// What came of ending a clone.
package enum CloneOutcome: Sendable, Equatable {
  case resolved(IssuedGuest)
  case challengeUsed
  case notCloned
  case keyInUse
  /// The guest was disabled, deleted, or became part of an account.
  case guestGone
}
