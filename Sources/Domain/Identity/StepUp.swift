import LatchkeyModel
import Storage

/// Somebody proved again who they are, in a session that is theirs; what proves it holds once.
package struct StepUp: IdentityCommand {
  package static let name = "step a session up"

  package enum Proof: Sendable, Equatable {
    /// The key of a guest's own device.
    case device(keyThumbprint: String)
    /// A credential of the account.
    case credential(SignIn.Proof)

    var method: SignInMethod? {
      switch self {
      case .device: .deviceKey
      case .credential(let proof): proof.method
      }
    }
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

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard var session = try await rows.lockCaller(session, at: now) else { return .sessionEnded }
    // Every refusal comes before the first change: an outcome is committed, whatever it says.
    if let challenge, try await rows.challenges.isUsed(challenge) { return .challengeUsed }
    if let refusal = try await refusal(in: session, rows) { return refusal }
    if case .credential(.code(_, _, let code)) = proof, try await !rows.codes.spend(code, at: now) {
      return .credentialChanged
    }
    if let challenge { _ = try await rows.challenges.insert(challenge) }
    session.authenticatedAt = now
    session.provenBy = proof.method
    session.confirmedAt = session.confirmedAt ?? now
    let lifetimes = lifetimes.family(isGuest: session.isGuest, method: session.method)
    // Two steps on: whoever has the refresh token of before is not taken along.
    session.family = RefreshFamily(
      generation: session.family.generation + 2, rotatedAt: now,
      idleExpiry: min(now + lifetimes.idle, session.family.absoluteExpiry),
      absoluteExpiry: session.family.absoluteExpiry)
    // What was offered on an older proof does not become an offer on this one.
    try await rows.transfers.remove(offerOf: session.id)
    try await rows.sessions.change(session)
    changes.confirmed.append(session.id)
    changes.notes.append(
      AuditNote(.steppedUp, at: now, subject: session.subject, session: session.id, address: address))
    return .steppedUp(session)
  }

  /// Why the proof is none for this session; nil when it is one.
  private func refusal(
    in session: Session, _ rows: some IdentityTransaction
  ) async throws(StorageError) -> Outcome? {
    switch proof {
    case .device(let key):
      guard session.isGuest, session.device.keyThumbprint == key, let device = try await rows.devices.lock(key),
        device.guest == session.subject, !device.isCloned
      else { return .credentialChanged }
      // The key of a device that was let in says nothing of who let it in.
      return session.isConfirmed ? nil : .notIndependent
    case .credential(let credential):
      guard case .found(let presented) = try await PresentedProof.find(credential, guest: nil, at: now, in: rows),
        presented.account == session.subject, let member = presented.credential
      else { return .credentialChanged }
      guard presented.source == nil else { return .notIndependent }
      return try await rows.lineage.isOwnMaking(member, of: session.id) ? .notIndependent : nil
    }
  }
}
