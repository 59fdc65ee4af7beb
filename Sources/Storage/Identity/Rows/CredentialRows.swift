import LatchkeyModel

/// Challenges that were answered, by hash and expiry.
package protocol ChallengeRows {
  /// Whether it was used. Until the operation ends no other one uses it.
  func isUsed(_ challenge: UsedChallenge) async throws(StorageError) -> Bool

  /// False when it was used before.
  func insert(_ challenge: UsedChallenge) async throws(StorageError) -> Bool

  /// At most `limit` of those that expired before a time, the oldest first. Returns how many.
  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}

/// One-time codes, by the hashes of what they were sent to and of the handles that their requesters were told.
package protocol OneTimeCodeRows {
  func lock(_ identifierHash: [UInt8], _ share: String) async throws(StorageError) -> StoredCode?

  /// Every share's of an identifier, in the order of their names.
  func lockAll(of identifierHash: [UInt8]) async throws(StorageError) -> [StoredCode]

  /// Stores a code in the place of the one of its share.
  func put(_ code: StoredCode) async throws(StorageError)

  /// At most `limit` of those that were sent before a time, the oldest first.
  func remove(sentBefore time: Timestamp, limit: Int) async throws(StorageError)

  /// Makes a code void. False when it was, or is not the one that is kept.
  func spend(_ code: OneTimeCode, at now: Timestamp) async throws(StorageError) -> Bool
}

/// A code as it is kept: by keyed hashes.
package struct OneTimeCode: Sendable, Equatable {
  package var identifierHash: [UInt8]
  package var codeHash: [UInt8]
  /// SHA-256 of the handle that its requester was told.
  package var handleHash: [UInt8]

  package init(identifierHash: [UInt8], codeHash: [UInt8], handleHash: [UInt8]) {
    self.identifierHash = identifierHash
    self.codeHash = codeHash
    self.handleHash = handleHash
  }
}

/// A code that was sent, and what counts for its share: a device, a network, or all strangers together.
package struct StoredCode: Sendable, Equatable {
  package var code: OneTimeCode
  package var share: String
  package var expiry: Timestamp
  package var attemptsLeft: Int64
  /// Tries of callers from elsewhere who say no handle.
  package var elsewhereLeft: Int64
  package var sentAt: Timestamp
  /// Since when the sends are counted.
  package var windowBeganAt: Timestamp
  package var sends: Int64

  package init(
    code: OneTimeCode, share: String, expiry: Timestamp, attemptsLeft: Int64, elsewhereLeft: Int64, sentAt: Timestamp,
    windowBeganAt: Timestamp, sends: Int64
  ) {
    self.code = code
    self.share = share
    self.expiry = expiry
    self.attemptsLeft = attemptsLeft
    self.elsewhereLeft = elsewhereLeft
    self.sentAt = sentAt
    self.windowBeganAt = windowBeganAt
    self.sends = sends
  }
}

/// What unlocks accounts on single devices, by kind and key.
package protocol UnlockRows {
  func find(_ kind: Unlock.Kind, _ keyThumbprint: String) async throws(StorageError) -> Unlock?

  /// Those of an account, in the order in which they were enrolled.
  func all(of account: SubjectID) async throws(StorageError) -> [Unlock]

  /// With how often it may be tried.
  func lock(
    _ kind: Unlock.Kind, _ keyThumbprint: String
  ) async throws(StorageError) -> (unlock: Unlock, triesLeft: Int64)?

  /// Stores an unlock in the place of any that the key had of this kind.
  func put(_ unlock: Unlock, triesLeft: Int64) async throws(StorageError)

  func change(_ kind: Unlock.Kind, _ keyThumbprint: String, triesLeft: Int64) async throws(StorageError)

  /// False when the account had no such unlock.
  func remove(_ kind: Unlock.Kind, _ keyThumbprint: String, of account: SubjectID) async throws(StorageError) -> Bool

  /// Those of an account on one device. Returns how many.
  func remove(of account: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Int

  /// Those of an account on every device but one. Returns how many.
  func remove(of account: SubjectID, exceptDevice keyThumbprint: String?) async throws(StorageError) -> Int

  /// What the QR session made when it bound a device.
  func bound(by qrSession: String) async throws(StorageError) -> Unlock?

  /// The unlock by which a code bound a device is another key's from now on.
  func changeKey(ofBinding keyThumbprint: String, to other: String) async throws(StorageError)

  /// What was enrolled on a device, but what its own key is, is that of another device from now on.
  func changeDevice(_ keyThumbprint: String, to other: String) async throws(StorageError)

  /// What is proven by a key.
  func remove(ofKey keyThumbprint: String) async throws(StorageError)
}

/// Link tickets, by hash. Of a guest session's the newest is kept.
package protocol LinkTicketRows {
  func find(_ hash: [UInt8]) async throws(StorageError) -> LinkTicket?

  func lock(_ hash: [UInt8]) async throws(StorageError) -> LinkTicket?

  /// Stores a ticket in the place of the one that its guest session had.
  func put(_ ticket: LinkTicket) async throws(StorageError)

  func remove(_ hash: [UInt8]) async throws(StorageError)

  /// Those that lead to an account.
  func remove(of account: SubjectID) async throws(StorageError)

  /// At most `limit` of those that expired before a time, the oldest first. Returns how many.
  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}

/// Tries that were not right, by the hash of what was tried and the share that they count for, so that a restart forgets
/// none.
package protocol AttemptRows {
  func lock(_ target: [UInt8], _ share: String) async throws(StorageError) -> CountedTries?

  func put(_ tries: CountedTries, _ target: [UInt8], _ share: String) async throws(StorageError)

  func remove(_ target: [UInt8], _ share: String) async throws(StorageError)

  /// At most `limit` of what was not tried since a time, the oldest first. Returns how many.
  func remove(lastBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}

/// How often something was tried in a row, and when last.
package struct CountedTries: Sendable, Equatable {
  package var failures: Int64
  package var lastAt: Timestamp

  package init(failures: Int64, lastAt: Timestamp) {
    self.failures = failures
    self.lastAt = lastAt
  }
}
