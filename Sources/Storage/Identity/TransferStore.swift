import LatchkeyModel

/// Guests and accounts on their way to a new device.
package protocol TransferStore: Sendable {
  /// Keeps an offer of the caller's; an earlier one of the same session is void.
  func create(_ offer: TransferOffer, by caller: SessionID) async throws(StorageError) -> OwnSessionOutcome

  /// The offer behind the hash of a code or reference, while it can be redeemed.
  func offer(_ secretHash: [UInt8], at now: Timestamp) async throws(StorageError) -> StoredTransfer?

  /// Moves, as one change. The same device with the same challenge is answered the same while the offer would hold.
  func redeem(_ redemption: TransferRedemption) async throws(StorageError) -> TransferOutcome

  /// Voids an offer of the caller's subject. False when there was none to void.
  func cancel(_ id: TransferID, of subject: SubjectID, at now: Timestamp) async throws(StorageError) -> Bool
}
