import LatchkeyModel

/// An unlock to be enrolled on the device of the caller's session.
package struct UnlockEnrolment: Sendable {
  package var session: SessionID
  package var kind: Unlock.Kind
  package var keyThumbprint: String
  package var secretHash: String?
  package var challenge: UsedChallenge
  package var now: Timestamp

  package init(
    session: SessionID,
    kind: Unlock.Kind,
    keyThumbprint: String,
    secretHash: String?,
    challenge: UsedChallenge,
    now: Timestamp
  ) {
    self.session = session
    self.kind = kind
    self.keyThumbprint = keyThumbprint
    self.secretHash = secretHash
    self.challenge = challenge
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    /// - Parameter isNew: false when it took an earlier one's place.
    case enrolled(Unlock, isNew: Bool)
    /// The key unlocks another account.
    case taken
    case callerEnded
    /// The caller's session is none that its owner stands by, or may not do all that the account may.
    case unconfirmed
    /// The caller's device has shown no key, or a pattern's proof is by another key than the device's.
    case notThisDevice
    case challengeUsed
    /// The account has as many as one may have.
    case full
  }
}
