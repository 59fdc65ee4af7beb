import LatchkeyModel
import Storage

extension SQLiteSessionStore {
  package func stepUp(_ stepUp: StepUp) async throws(StorageError) -> StepUp.Outcome {
    try await database.write { db, changes throws(StorageError) in
      let now = stepUp.now
      changes.address = stepUp.address
      guard var session = try SessionRow.live(stepUp.session, at: now, in: db) else { return .sessionEnded }
      // Every refusal comes before the first change: an outcome is committed, whatever it says.
      if let challenge = stepUp.challenge, try ChallengeRow.isUsed(challenge, in: db) { return .challengeUsed }
      if let refusal = try Self.refusal(of: stepUp.proof, in: session, at: now, db) { return refusal }
      if case .credential(.code(_, _, let code)) = stepUp.proof,
        try !SQLiteOneTimeCodeStore.spend(code, at: now, in: db)
      {
        return .credentialChanged
      }
      if let challenge = stepUp.challenge { try ChallengeRow.spend(challenge, in: db) }
      session.authenticatedAt = now
      session.confirmedAt = session.confirmedAt ?? now
      let lifetimes = stepUp.lifetimes.family(isGuest: session.isGuest, method: session.method)
      // Two steps on: whoever has the refresh token of before is not taken along.
      session.family = RefreshFamily(
        generation: session.family.generation + 2, rotatedAt: now,
        idleExpiry: min(now + lifetimes.idle, session.family.absoluteExpiry),
        absoluteExpiry: session.family.absoluteExpiry)
      // What was offered on an older proof does not become an offer on this one.
      try db.execute("DELETE FROM transfers WHERE sid = ? AND redeemed_sid IS NULL", .id(session.id))
      try SessionRow.steppedUp(session, in: db)
      changes.confirmed.append(session.id)
      changes.notes.append(
        AuditNote(.steppedUp, at: now, subject: session.subject, session: session.id, address: stepUp.address))
      return .steppedUp(session)
    }
  }

  package func isLetIn(_ id: SessionID) async throws(StorageError) -> Bool {
    try await database.read { db throws(StorageError) in
      guard let session = try SessionRow.find(id, in: db), try LineageRow.cameOfCode(.session(id), in: db) else {
        return false
      }
      // A guest's device is all that a guest has.
      if session.isGuest { return !session.isConfirmed }
      // Only a step-up is younger than the session.
      return session.authenticatedAt <= session.beganAt
    }
  }

  /// Why a proof is none for this session; nil when it is one.
  private static func refusal(
    of proof: StepUp.Proof, in session: Session, at now: Timestamp, _ db: SQLiteConnection
  ) throws(StorageError) -> StepUp.Outcome? {
    switch proof {
    case .device(let key):
      guard session.isGuest, session.device.keyThumbprint == key, let device = try DeviceRow.find(key, in: db),
        device.guest == session.subject, !device.isCloned
      else { return .credentialChanged }
      // The key of a device that was let in says nothing of who let it in.
      return session.isConfirmed ? nil : .notIndependent
    case .credential(let credential):
      guard case .found(let presented) = try PresentedProof.find(credential, guest: nil, at: now, in: db),
        presented.account == session.subject, let member = presented.credential
      else { return .credentialChanged }
      guard presented.source == nil else { return .notIndependent }
      return try LineageRow.isOwnMaking(member, of: session.id, in: db) ? .notIndependent : nil
    }
  }
}
