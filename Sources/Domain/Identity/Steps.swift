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

extension IdentityTransaction {
  /// A session, live or not, held together with whose it is, the subject first. Until the command ends nothing else begins
  /// or ends a session or a credential of theirs.
  func lockOwned(_ id: SessionID) async throws(StorageError) -> Session? {
    guard let found = try await sessions.find(id) else { return nil }
    _ = try await subjects.lock(found.subject)
    return try await sessions.lock(id)
  }

  /// The same for the session that a command acts in the name of; nil when it is not live.
  func lockCaller(_ id: SessionID, at now: Timestamp) async throws(StorageError) -> Session? {
    guard let session = try await lockOwned(id), session.isLive(at: now) else { return nil }
    return session
  }

  /// Holds a guest, then accounts in the order of their ids: whoever holds several does it in the same order.
  func lock(guest: SubjectID? = nil, accounts ids: [SubjectID?] = []) async throws(StorageError) {
    if let guest { _ = try await subjects.lock(guest) }
    for id in Set(ids.compactMap { $0 }).sorted() where id != guest { _ = try await subjects.lock(id) }
  }

  /// Holds what leads to an account, and before it an account that it may be taken from because nobody has proven it.
  ///
  /// - Parameter account: who is held as well.
  func lockIdentity(
    _ identifier: AccountIdentifier, and account: SubjectID? = nil
  ) async throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    let found = try await identities.find(identifier)
    let holder = found.flatMap { $0.identity.isProven ? nil : $0.owner }
    try await lock(accounts: [holder, account])
    let held = try await identities.lock(identifier)
    if let held, !held.identity.isProven, held.owner != holder {
      // Somebody took it meanwhile, who has to be held before it.
      throw StorageError(.superseded, operation: "hold what leads to an account")
    }
    return held
  }
}

/// A guest whose session is live; what its command does to it, no other does at the same time.
struct LiveGuest {
  let session: Session
  let subject: Subject

  static func find(
    _ id: SessionID, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> LiveGuest? {
    guard let found = try await rows.sessions.live(id, at: now), found.isGuest,
      let subject = try await rows.subjects.lock(found.subject), subject.isGuest,
      let session = try await rows.sessions.lockLive(id, at: now)
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
  /// Takes an address that nobody had proven from the account that said it, which is held: its owner came.
  mutating func release(
    _ identifier: AccountIdentifier, from account: SubjectID, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    _ = try await rows.identities.remove(identifier.kind, identifier.canonical, of: account)
    try await rows.lineage.remove(ancestorsOf: .identity(identifier.kind, value: identifier.canonical))
    // Which credential a ticket stands for is not worth telling apart for five minutes.
    try await rows.tickets.remove(of: account)
    notes.append(AuditNote(.identityReleased, at: now, subject: account, detail: identifier.mask))
  }

  /// A code showed that the address is its account's.
  mutating func verify(
    _ identifier: AccountIdentifier, of account: SubjectID, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    try await rows.identities.change(identifier, verifiedAt: now)
    notes.append(AuditNote(.identityVerified, at: now, subject: account, detail: identifier.mask))
  }
}
