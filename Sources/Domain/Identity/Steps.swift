import LatchkeyModel
import Storage

// Steps that several commands take.

extension SessionChanges {
  mutating func begin(_ session: Session, in rows: some IdentityTransaction) async throws(StorageError) {
    try await rows.sessions.insert(session)
    began.append(session)
  }

  /// Ends one session, unless it ended before.
  mutating func end(
    _ id: SessionID, because why: Session.End, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    if let session = try await rows.sessions.end(id, because: why, at: now) { ended.append(session) }
  }

  /// Removes what unlocks an account on a device, which its owner no longer trusts.
  mutating func removeUnlocks(
    of account: SubjectID, onDevice keyThumbprint: String, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    guard try await rows.unlocks.remove(of: account, onDevice: keyThumbprint) > 0 else { return }
    notes.append(AuditNote(.credentialRemoved, at: now, subject: account, detail: "unlocks of a device"))
  }

  /// The same for every device but one.
  mutating func removeUnlocks(
    of account: SubjectID, exceptDevice keyThumbprint: String?, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    guard try await rows.unlocks.remove(of: account, exceptDevice: keyThumbprint) > 0 else { return }
    notes.append(AuditNote(.credentialRemoved, at: now, subject: account, detail: "unlocks of other devices"))
  }
}

extension SessionRows {
  /// The session if it is live, nil if it ended, expired or never was.
  func live(_ id: SessionID, at now: Timestamp) async throws(StorageError) -> Session? {
    guard let session = try await find(id), session.isLive(at: now) else { return nil }
    return session
  }

  /// The same for one that the command is about.
  func lockLive(_ id: SessionID, at now: Timestamp) async throws(StorageError) -> Session? {
    guard let session = try await lock(id), session.isLive(at: now) else { return nil }
    return session
  }
}

extension IdentityRows {
  /// The account as its owner recognises it: by what was linked first.
  func mask(of account: SubjectID) async throws(StorageError) -> String {
    try await first(of: account)?.mask ?? ""
  }
}

extension SignInSourceRows {
  /// Notes that an account was signed in from a network: known for it from now on. The time is kept by the day, so that
  /// most sign-ins write nothing here.
  func note(_ source: String, of account: SubjectID, at now: Timestamp) async throws(StorageError) {
    guard !source.isEmpty else { return }
    if let last = try await find(source, of: account), last > now - KnownSource.grain { return }
    try await put(source, of: account, at: now)
    try await remove(of: account, allBut: KnownSource.mostPerAccount)
  }
}

/// Networks that a person signed in from are told apart from strangers'.
enum KnownSource {
  /// Home, work, a phone's and some more; the oldest goes.
  static let mostPerAccount = 16
  static let grain: Duration = .seconds(86_400)
}

/// A guest whose session is live; what its command does to it, no other does at the same time.
struct LiveGuest {
  let session: Session
  let subject: Subject

  static func find(
    _ id: SessionID, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> LiveGuest? {
    guard let session = try await rows.sessions.live(id, at: now), session.isGuest,
      let subject = try await rows.subjects.lock(session.subject), subject.isGuest
    else { return nil }
    return LiveGuest(session: session, subject: subject)
  }
}

extension Identity {
  /// - Parameter isVerified: whether a code showed that an address is its owner's.
  init(_ identifier: AccountIdentifier, linkedAt now: Timestamp, isVerified: Bool) {
    self.init(
      kind: identifier.kind, value: identifier.canonical, mask: identifier.mask, linkedAt: now,
      verifiedAt: isVerified ? now : nil)
  }
}

extension SessionChanges {
  /// Takes an address that nobody had proven from the account that said it: its owner came.
  mutating func release(
    _ identifier: AccountIdentifier, from account: SubjectID, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    _ = try await rows.identities.remove(identifier.kind, identifier.canonical, of: account)
    try await rows.lineage.remove(ancestorsOf: .identity(identifier.kind, value: identifier.canonical))
    notes.append(AuditNote(.identityReleased, at: now, subject: account, detail: identifier.mask))
  }
}
