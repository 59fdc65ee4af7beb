import LatchkeyModel
import Storage

// Steps of the operations that still decide in their store: linking, credentials, transfers, grants to codes, merges and
// what keepers do. Each goes when the last of those that take it is a command of the domain, which has its own.

extension SQLiteConnection {
  var sessions: SQLiteSessions { SQLiteSessions(db: self) }
  var subjects: SQLiteSubjects { SQLiteSubjects(db: self) }
  var devices: SQLiteDevices { SQLiteDevices(db: self) }
  var identities: SQLiteIdentities { SQLiteIdentities(db: self) }
  var challenges: SQLiteChallenges { SQLiteChallenges(db: self) }
  var codes: SQLiteCodes { SQLiteCodes(db: self) }
  var unlocks: SQLiteUnlocks { SQLiteUnlocks(db: self) }
  var tickets: SQLiteTickets { SQLiteTickets(db: self) }
  var lineage: SQLiteLineage { SQLiteLineage(db: self) }
  var merges: SQLiteMerges { SQLiteMerges(db: self) }
}

extension SQLiteSessions {
  /// The session if it is live, nil if it ended, expired or never was.
  func live(_ id: SessionID, at now: Timestamp) throws(StorageError) -> Session? {
    guard let session = try find(id), session.isLive(at: now) else { return nil }
    return session
  }
}

extension SQLiteLineage {
  /// Chains longer than this are no person's: each link takes a proof of the owner.
  func isTooDeep(_ member: LineageMember) throws(StorageError) -> Bool { try ancestors(of: member).count >= 64 }

  /// It came of each of these, and of all that those came of.
  func note(_ member: LineageMember, cameOf sources: [LineageMember]) throws(StorageError) {
    for source in sources {
      try insert(member, cameOf: source)
      try insert(member, cameOfAncestorsOf: source)
    }
  }
}

extension SessionChanges {
  mutating func begin(_ session: Session, in db: SQLiteConnection) throws(StorageError) {
    try db.sessions.insert(session)
    began.append(session)
  }

  /// Ends one session, unless it ended before.
  mutating func end(
    _ id: SessionID, because why: Session.End, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    if let session = try db.sessions.end(id, because: why, at: now) { ended.append(session) }
  }

  /// Removes what unlocks an account on a device, which its owner no longer trusts.
  mutating func removeUnlocks(
    of account: SubjectID, onDevice keyThumbprint: String, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    guard try db.unlocks.remove(of: account, onDevice: keyThumbprint) > 0 else { return }
    notes.append(AuditNote(.credentialRemoved, at: now, subject: account, detail: "unlocks of a device"))
  }

  /// The same for every device but one.
  mutating func removeUnlocks(
    of account: SubjectID, exceptDevice keyThumbprint: String?, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    guard try db.unlocks.remove(of: account, exceptDevice: keyThumbprint) > 0 else { return }
    notes.append(AuditNote(.credentialRemoved, at: now, subject: account, detail: "unlocks of other devices"))
  }

  /// A code showed that the address is its account's.
  mutating func verify(
    _ identifier: AccountIdentifier, of account: SubjectID, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    guard try db.identities.verify(identifier, of: account, at: now) else { return }
    notes.append(AuditNote(.identityVerified, at: now, subject: account, detail: identifier.mask))
  }

  /// Takes an address that nobody had proven from the account that said it: its owner came.
  mutating func release(
    _ identifier: AccountIdentifier, from account: SubjectID, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    _ = try db.identities.remove(identifier.kind, identifier.canonical, of: account)
    try db.lineage.remove(ancestorsOf: .identity(identifier.kind, value: identifier.canonical))
    notes.append(AuditNote(.identityReleased, at: now, subject: account, detail: identifier.mask))
  }
}
