import LatchkeyModel

/// A device that proved its key and presents a code.
package struct TransferRedemption: Sendable {
  /// SHA-256 of the code or the reference.
  package var secretHash: [UInt8]
  package var device: DeviceRegistration
  package var challengeHash: [UInt8]
  package var challengeExpiry: Timestamp
  package var keepsOld: Bool
  /// Whether two addresses are of one network.
  package var isSameNetwork: @Sendable (String, String) -> Bool
  package var draft: SessionDraft

  package init(
    secretHash: [UInt8],
    device: DeviceRegistration,
    challengeHash: [UInt8],
    challengeExpiry: Timestamp,
    keepsOld: Bool,
    isSameNetwork: @escaping @Sendable (String, String) -> Bool,
    draft: SessionDraft
  ) {
    self.secretHash = secretHash
    self.device = device
    self.challengeHash = challengeHash
    self.challengeExpiry = challengeExpiry
    self.keepsOld = keepsOld
    self.isSameNetwork = isSameNetwork
    self.draft = draft
  }
}
