import LatchkeyModel
import Storage

/// Enrols what unlocks the caller's account on the device of the caller's session. Of one device's patterns the newest
/// holds.
package struct EnrolUnlock: IdentityCommand {
  package static let name = "enrol an unlock"

  package var session: SessionID
  package var kind: Unlock.Kind
  package var keyThumbprint: String
  package var secretHash: String?
  /// What the key signed; it holds once.
  package var challenge: UsedChallenge
  /// Names the change to whoever is told of it.
  package var notice: NoticeID
  package var now: Timestamp

  package init(
    session: SessionID,
    kind: Unlock.Kind,
    keyThumbprint: String,
    secretHash: String?,
    challenge: UsedChallenge,
    notice: NoticeID,
    now: Timestamp
  ) {
    self.session = session
    self.kind = kind
    self.keyThumbprint = keyThumbprint
    self.secretHash = secretHash
    self.challenge = challenge
    self.notice = notice
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

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard let caller = try await rows.lockCaller(session, at: now),
      try await rows.subjects.find(caller.subject)?.isAccount == true
    else { return .callerEnded }
    guard caller.authority.isOwners else { return .unconfirmed }
    guard let device = caller.device.keyThumbprint, kind == .key || keyThumbprint == device else {
      return .notThisDevice
    }
    let earlier = try await rows.unlocks.lock(kind, keyThumbprint)?.unlock
    if kind == .key, let earlier, earlier.account != caller.subject { return .taken }
    let isNew = earlier?.account != caller.subject
    if isNew, try await rows.unlocks.isFull(caller.subject) { return .full }
    guard try await rows.challenges.insert(challenge) else { return .challengeUsed }
    let unlock = Unlock(
      kind: kind, keyThumbprint: keyThumbprint, account: caller.subject, deviceKey: device, secretHash: secretHash,
      enrolledAt: now)
    try await rows.unlocks.put(unlock, triesLeft: PatternTries.most)
    let member = LineageMember.unlock(kind, key: keyThumbprint)
    try await rows.lineage.remove(ancestorsOf: member)
    try await rows.lineage.note(member, cameOf: [.session(caller.id)])
    changes.notes.append(
      AuditNote(.credentialEnrolled, at: now, subject: caller.subject, session: caller.id, detail: kind.name))
    try await rows.tell(.unlockEnrolled, notice, to: caller.subject, at: now, noting: &changes)
    return .enrolled(unlock, isNew: isNew)
  }
}

extension UnlockRows {
  /// A person has a few devices, each with a key and a pattern; the list is read whole.
  private static var mostPerAccount: Int { 64 }

  /// Whether an account has as many as one may have.
  func isFull(_ account: SubjectID) async throws(StorageError) -> Bool {
    try await all(of: account).count >= Self.mostPerAccount
  }
}

/// An owner takes away what unlocks their account on a device.
package struct RemoveUnlock: IdentityCommand {
  package static let name = "remove an unlock"

  package var unlock: Unlock
  package var caller: SessionID
  package var now: Timestamp

  package init(_ unlock: Unlock, by caller: SessionID, at now: Timestamp) {
    self.unlock = unlock
    self.caller = caller
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case removed
    /// The account has no such unlock.
    case notFound
    case callerEnded
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    // Nobody signs in or keeps a ticket by it meanwhile.
    _ = try await rows.subjects.lock(unlock.account)
    guard let own = try await rows.sessions.lockLive(caller, at: now), own.subject == unlock.account else {
      return .callerEnded
    }
    guard try await rows.unlocks.remove(unlock.kind, unlock.keyThumbprint, of: unlock.account) else { return .notFound }
    try await rows.lineage.remove(ancestorsOf: .unlock(unlock.kind, key: unlock.keyThumbprint))
    try await rows.tickets.remove(of: unlock.account)
    changes.notes.append(
      AuditNote(.credentialRemoved, at: now, subject: unlock.account, session: own.id, detail: unlock.kind.name))
    return .removed
  }
}

/// What unlocks an account, in the order in which it was enrolled.
package struct ListUnlocks: IdentityOperation {
  package static let name = "list unlocks"

  package var account: SubjectID

  package init(of account: SubjectID) {
    self.account = account
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [Unlock] {
    try await rows.unlocks.all(of: account)
  }
}

/// What a key unlocks; nil when it unlocks nothing.
package struct FindUnlock: IdentityOperation {
  package static let name = "find an unlock"

  package var keyThumbprint: String

  package init(byKey keyThumbprint: String) {
    self.keyThumbprint = keyThumbprint
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> FoundUnlock? {
    guard let unlock = try await rows.unlocks.find(.key, keyThumbprint) else { return nil }
    return FoundUnlock(unlock: unlock, mask: try await rows.identities.mask(of: unlock.account))
  }
}

/// An unlock with its account as the owner recognises it.
package struct FoundUnlock: Sendable, Equatable {
  package var unlock: Unlock
  package var mask: String

  package init(unlock: Unlock, mask: String) {
    self.unlock = unlock
    self.mask = mask
  }
}
