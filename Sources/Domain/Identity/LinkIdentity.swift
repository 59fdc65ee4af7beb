import LatchkeyModel
import Storage

/// Lets an identifier lead to the caller's account, if the caller's session is live. Idempotent.
package struct LinkIdentity: IdentityCommand {
  package static let name = "link an identity"

  package var identifier: AccountIdentifier
  package var caller: SessionID
  /// The code by which the identifier was shown to be the caller's; it is spent.
  package var code: OneTimeCode?
  /// What the identifier's provider answered; it is used up.
  package var challenge: UsedChallenge?
  /// The hash of a custom identifier's own secret, which takes the place of an earlier one.
  package var secretHash: String?
  /// Names the change to whoever is told of it.
  package var notice: NoticeID
  package var now: Timestamp

  package init(
    _ identifier: AccountIdentifier, by caller: SessionID, code: OneTimeCode? = nil, challenge: UsedChallenge? = nil,
    secretHash: String? = nil, notice: NoticeID, at now: Timestamp
  ) {
    self.identifier = identifier
    self.caller = caller
    self.code = code
    self.challenge = challenge
    self.secretHash = secretHash
    self.notice = notice
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case linked(Identity)
    /// It led to this account before.
    case already(Identity)
    /// It leads to another account.
    case taken
    /// Another account has the address, whose owner never showed to be it: a code would decide.
    case unproven
    /// The code was spent meanwhile.
    case codeSpent
    case challengeUsed
    /// The caller's session ended meanwhile.
    case callerEnded
    /// The account has as many identities as one may have.
    case full
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    // Whoever was turned out while their password was checked leaves no way back in behind.
    let account = try await rows.sessions.find(caller)?.subject
    let held = try await rows.lockIdentity(identifier, and: account)
    guard let own = try await rows.lockCaller(caller, at: now), !own.isGuest else { return .callerEnded }
    if let (identity, owner) = held, owner == own.subject {
      if let refusal = try await spend(in: rows) { return refusal }
      return .already(try await refresh(identity, of: owner, in: rows, noting: &changes))
    }
    if let (identity, _) = held {
      guard !identity.isProven else { return .taken }
      guard code != nil else { return .unproven }
    }
    guard try await rows.identities.all(of: own.subject).count < mostIdentities else { return .full }
    if let refusal = try await spend(in: rows) { return refusal }
    // Before the new one is there: a thief's own address is not who has to know.
    try await rows.tell(.identityLinked, notice, to: own.subject, at: now, noting: &changes)
    // An address that nobody had proven is the account's whose owner did.
    if let (_, holder) = held { try await changes.release(identifier, from: holder, at: now, in: rows) }
    let identity = Identity(identifier, linkedAt: now, isVerified: code != nil)
    // Nobody has it: it was locked when that was seen.
    guard try await rows.identities.insert(identity, secretHash: secretHash, of: own.subject) else {
      throw StorageError(.superseded, operation: Self.name)
    }
    try await rows.lineage.note(
      .identity(identifier.kind, value: identifier.canonical), cameOf: [.session(own.id)])
    changes.notes.append(AuditNote(.identityLinked, at: now, subject: own.subject, detail: identifier.mask))
    return .linked(identity)
  }

  /// Uses up what showed that the identifier is the caller's. Nil when all of it held.
  private func spend(in rows: some IdentityTransaction) async throws(StorageError) -> Outcome? {
    if let challenge, try await rows.challenges.isUsed(challenge) { return .challengeUsed }
    if let code, try await !rows.codes.spend(code, at: now) { return .codeSpent }
    if let challenge { _ = try await rows.challenges.insert(challenge) }
    return nil
  }

  /// What is linked already gets the new secret, and is verified by the code.
  private func refresh(
    _ identity: Identity, of account: SubjectID, in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Identity {
    var identity = identity
    if let secretHash {
      try await rows.identities.change(identifier, secretHash: secretHash)
      // What was begun by the old secret is not finished by it.
      try await rows.tickets.remove(of: account)
      try await rows.tell(.identityLinked, notice, to: account, at: now, noting: &changes)
      changes.notes.append(AuditNote(.credentialEnrolled, at: now, subject: account, detail: identifier.kind.name))
    }
    if code != nil, identity.verifiedAt == nil {
      try await changes.verify(identifier, of: account, at: now, in: rows)
      identity.verifiedAt = now
    }
    return identity
  }
}

/// A person has a few addresses, numbers and names; the list is read whole.
private let mostIdentities = 32

/// Lets an identity lead to the caller's account no longer, if the caller's session is live; never the last one.
package struct UnlinkIdentity: IdentityCommand {
  package static let name = "unlink an identity"

  package var identity: Identity
  package var caller: SessionID
  /// Names the change to whoever is told of it.
  package var notice: NoticeID
  package var now: Timestamp

  package init(_ identity: Identity, by caller: SessionID, notice: NoticeID, at now: Timestamp) {
    self.identity = identity
    self.caller = caller
    self.notice = notice
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case unlinked
    /// It did not lead to this account.
    case notFound
    case last
    /// The caller's session ended meanwhile.
    case callerEnded
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    // Two who each leave the other's identity would leave none: the account is held.
    guard let own = try await rows.lockCaller(caller, at: now), !own.isGuest else { return .callerEnded }
    let account = own.subject
    let all = try await rows.identities.all(of: account)
    guard all.contains(where: { $0.kind == identity.kind && $0.value == identity.value }) else { return .notFound }
    guard all.count > 1 else { return .last }
    // The address that goes is told as well.
    try await rows.tell(.identityUnlinked, notice, to: account, at: now, noting: &changes)
    _ = try await rows.identities.remove(identity.kind, identity.value, of: account)
    try await rows.lineage.remove(ancestorsOf: .identity(identity.kind, value: identity.value))
    try await rows.tickets.remove(of: account)
    changes.notes.append(AuditNote(.identityUnlinked, at: now, subject: account, detail: identity.mask))
    return .unlinked
  }
}
