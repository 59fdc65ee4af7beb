import LatchkeyModel

/// Somebody proved again who they are, in a session that is theirs.
package struct StepUp: Sendable {
  package enum Proof: Sendable, Equatable {
    /// The key of a guest's own device.
    case device(keyThumbprint: String)
    /// A credential of the account.
    case credential(SignIn.Proof)
  }

  package var session: SessionID
  package var proof: Proof
  package var challenge: UsedChallenge?
  /// How long the session goes on without being used.
  package var lifetimes: TokenLifetimes
  package var address: String
  package var now: Timestamp

  package init(
    session: SessionID, proof: Proof, challenge: UsedChallenge?, lifetimes: TokenLifetimes, address: String,
    now: Timestamp
  ) {
    self.session = session
    self.proof = proof
    self.challenge = challenge
    self.lifetimes = lifetimes
    self.address = address
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case steppedUp(Session)
    case sessionEnded
    /// The proof is no longer, or never was, one of the session's own guest or account.
    case credentialChanged
    case challengeUsed
    /// The session let itself in by it, or enrolled it: it tells nothing of its owner.
    case notIndependent
  }
}
