import LatchkeyModel

/// A code by which a guest or account may move to another device, as it is kept: the code and the reference are there
/// as hashes only.
package struct TransferOffer: Sendable, Equatable {
  package var id: TransferID
  package var codeHash: [UInt8]
  package var referenceHash: [UInt8]
  package var consent: OldDeviceConsent
  /// The network address it was made from.
  package var address: String
  package var needsSameNetwork: Bool
  package var createdAt: Timestamp
  package var expiry: Timestamp

  package init(
    id: TransferID,
    codeHash: [UInt8],
    referenceHash: [UInt8],
    consent: OldDeviceConsent,
    address: String,
    needsSameNetwork: Bool,
    createdAt: Timestamp,
    expiry: Timestamp
  ) {
    self.id = id
    self.codeHash = codeHash
    self.referenceHash = referenceHash
    self.consent = consent
    self.address = address
    self.needsSameNetwork = needsSameNetwork
    self.createdAt = createdAt
    self.expiry = expiry
  }
}
