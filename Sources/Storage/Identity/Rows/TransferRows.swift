import LatchkeyModel

/// Offers to move to another device, by their ids. Of a session the newest is kept.
package protocol TransferRows {
  /// By the hash of the code or of the reference.
  func find(_ secretHash: [UInt8]) async throws(StorageError) -> TransferRecord?

  func lock(_ secretHash: [UInt8]) async throws(StorageError) -> TransferRecord?

  func lock(_ id: TransferID) async throws(StorageError) -> TransferRecord?

  /// Stores an offer in the place of the one that its session had.
  func put(_ record: TransferRecord) async throws(StorageError)

  func change(_ id: TransferID, triesLeft: Int64) async throws(StorageError)

  func change(_ id: TransferID, redeemed: TransferRecord.Redeemed) async throws(StorageError)

  func remove(_ id: TransferID) async throws(StorageError)

  /// Those of a guest or account, redeemed or not.
  func remove(of subject: SubjectID) async throws(StorageError)

  /// The offer of a session, unless it was redeemed.
  func remove(offerOf session: SessionID) async throws(StorageError)

  /// At most `limit` of those that expired before a time, the oldest first. Returns how many.
  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}

/// An offer with who made it, and what came of it.
package struct TransferRecord: Sendable, Equatable {
  package struct Redeemed: Sendable, Equatable {
    package var session: SessionID
    package var challengeHash: [UInt8]
    package var previousSubject: SubjectID?
    package var sessionsEnded: Int

    package init(session: SessionID, challengeHash: [UInt8], previousSubject: SubjectID?, sessionsEnded: Int) {
      self.session = session
      self.challengeHash = challengeHash
      self.previousSubject = previousSubject
      self.sessionsEnded = sessionsEnded
    }
  }

  package var offer: TransferOffer
  package var subject: SubjectID
  package var session: SessionID
  package var triesLeft: Int64
  package var redeemed: Redeemed?

  package init(
    offer: TransferOffer, subject: SubjectID, session: SessionID, triesLeft: Int64, redeemed: Redeemed? = nil
  ) {
    self.offer = offer
    self.subject = subject
    self.session = session
    self.triesLeft = triesLeft
    self.redeemed = redeemed
  }
}
