import LatchkeyModel

/// What unlocks an account on one device: a key of its own, or a pattern together with the device's key.
package struct Unlock: Sendable, Equatable {
  /// As it is stored: never renumbered.
  package enum Kind: Int64, Sendable, CaseIterable {
    case key = 1
    case pattern = 2

    /// As it appears in messages.
    package var name: String {
      switch self {
      case .key: "device_key"
      case .pattern: "pattern"
      }
    }
  }

  package var kind: Kind
  /// SHA-256 thumbprint (RFC 7638) of the key that proves it; the device's own for a pattern.
  package var keyThumbprint: String
  package var account: SubjectID
  /// The key of the device that it was enrolled on.
  package var deviceKey: String
  /// Argon2id of the pattern.
  package var secretHash: String?
  package var enrolledAt: Timestamp
  /// Set when a QR code made the device one of the account's: then the key is the device's own.
  package var binding: DeviceBinding?

  package init(
    kind: Kind,
    keyThumbprint: String,
    account: SubjectID,
    deviceKey: String,
    secretHash: String?,
    enrolledAt: Timestamp,
    binding: DeviceBinding? = nil
  ) {
    self.kind = kind
    self.keyThumbprint = keyThumbprint
    self.account = account
    self.deviceKey = deviceKey
    self.secretHash = secretHash
    self.enrolledAt = enrolledAt
    self.binding = binding
  }
}
