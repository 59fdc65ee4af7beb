import LatchkeyModel

/// Networks that a person signed in to an account from, by account and network.
package protocol SignInSourceRows {
  /// When it was last noted.
  func find(_ source: String, of account: SubjectID) async throws(StorageError) -> Timestamp?

  func put(_ source: String, of account: SubjectID, at now: Timestamp) async throws(StorageError)

  /// All of an account but the newest `count`.
  func remove(of account: SubjectID, allBut count: Int) async throws(StorageError)
}

/// What a sign-in was answered, by a keyed hash of its request.
package protocol SignInReplayRows {
  func find(_ key: [UInt8]) async throws(StorageError) -> SignInReplay?

  func lock(_ key: [UInt8]) async throws(StorageError) -> SignInReplay?

  func put(_ replay: SignInReplay, _ key: [UInt8]) async throws(StorageError)

  /// At most `limit` of those that have expired.
  func removeExpired(at now: Timestamp, limit: Int) async throws(StorageError)
}

/// What is kept of a sign-in to answer it again.
package struct SignInReplay: Sendable, Equatable {
  package var session: SessionID
  package var previousSubject: SubjectID?
  package var isPromoted: Bool
  package var isWipeRequired: Bool
  package var merge: MergeID?
  package var expiry: Timestamp

  package init(
    session: SessionID, previousSubject: SubjectID?, isPromoted: Bool, isWipeRequired: Bool, merge: MergeID?,
    expiry: Timestamp
  ) {
    self.session = session
    self.previousSubject = previousSubject
    self.isPromoted = isPromoted
    self.isWipeRequired = isWipeRequired
    self.merge = merge
    self.expiry = expiry
  }
}

/// The sessions that QR codes began, by the ids of the QR sessions.
package protocol QRGrantRows {
  /// What a code granted is another session from now on.
  func change(_ session: SessionID, to other: SessionID) async throws(StorageError)

  /// What a code granted is this session, in the place of an earlier one; nil leaves that one. `turn` is the turn that it
  /// was asked for in, and stays the last one where it is nil.
  func put(_ qrSession: String, session: SessionID?, turn: Int64?, at now: Timestamp) async throws(StorageError)

  func find(_ qrSession: String) async throws(StorageError) -> QRGrantRecord?

  func lock(_ qrSession: String) async throws(StorageError) -> QRGrantRecord?

  /// Notes that nothing is granted by the code any more, whether anything was.
  func revoke(_ qrSession: String, at now: Timestamp) async throws(StorageError)

  /// At most `limit` of those from before a time that never granted anything, the oldest first. Returns how many.
  func remove(emptyBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}

/// What a QR code began.
package struct QRGrantRecord: Sendable, Equatable {
  /// Nil when it was revoked before it began one, or nothing but refused so far.
  package var session: SessionID?
  package var createdAt: Timestamp
  package var isRevoked: Bool
  /// The last turn that it was asked for in; nil while nobody said one.
  package var turn: Int64?

  package init(session: SessionID?, createdAt: Timestamp, isRevoked: Bool, turn: Int64? = nil) {
    self.session = session
    self.createdAt = createdAt
    self.isRevoked = isRevoked
    self.turn = turn
  }
}
