import LatchkeyModel
import Storage

/// Identities in SQLite.
package struct SQLiteLinkStore: LinkStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func identities(of account: SubjectID) async throws(StorageError) -> [Identity] {
    try await database.read { db throws(StorageError) in try db.identities.all(of: account) }
  }

  package func passwordHash(of account: SubjectID) async throws(StorageError) -> String? {
    try await database.read { db throws(StorageError) in
      try db.first("SELECT hash FROM passwords WHERE sub = ?", .id(account)) { $0.text(0) }
    }
  }

  package func link(
    _ identifier: AccountIdentifier, by caller: SessionID, code: OneTimeCode?, challenge: UsedChallenge?,
    secretHash: String?, at now: Timestamp
  ) async throws(StorageError) -> LinkOutcome {
    try await database.write { db, changes throws(StorageError) in
      // Whoever was turned out while their password was checked leaves no way back in behind.
      guard let own = try db.sessions.live(caller, at: now), !own.isGuest else { return .callerEnded }
      let account = own.subject
      if let (identity, owner) = try db.identities.find(identifier) {
        if owner != account, identity.isProven { return .taken }
        if owner != account, code == nil { return .unproven }
        if owner != account {
          return try Self.takeOver(identifier, from: owner, by: own, code: code, at: now, in: db, noting: &changes)
        }
        if let challenge, try !db.challenges.insert(challenge) { return .challengeUsed }
        if let code, try !db.codes.spend(code, at: now) { return .codeSpent }
        if let secretHash {
          try db.identities.change(identifier, secretHash: secretHash)
          changes.notes.append(
            AuditNote(.credentialEnrolled, at: now, subject: account, detail: identifier.kind.name))
        }
        if code != nil { try changes.verify(identifier, of: account, at: now, in: db) }
        return .already(try db.identities.find(identifier)?.identity ?? identity)
      }
      guard try db.identities.all(of: account).count < SQLiteIdentities.mostPerAccount else { return .full }
      if let challenge, try !db.challenges.insert(challenge) { return .challengeUsed }
      if let code, try !db.codes.spend(code, at: now) { return .codeSpent }
      return try Self.add(
        identifier, to: account, by: own.id, secretHash: secretHash, isVerified: code != nil, at: now, in: db,
        noting: &changes)
    }
  }

  /// Gives an address that nobody had proven to the account whose owner did.
  private static func takeOver(
    _ identifier: AccountIdentifier, from holder: SubjectID, by own: Session, code: OneTimeCode?,
    at now: Timestamp, in db: SQLiteConnection, noting changes: inout SessionChanges
  ) throws(StorageError) -> LinkOutcome {
    let account = own.subject
    guard try db.identities.all(of: account).count < SQLiteIdentities.mostPerAccount else { return .full }
    guard let code, try db.codes.spend(code, at: now) else { return .codeSpent }
    try changes.release(identifier, from: holder, at: now, in: db)
    return try add(
      identifier, to: account, by: own.id, secretHash: nil, isVerified: true, at: now, in: db, noting: &changes)
  }

  private static func add(
    _ identifier: AccountIdentifier, to account: SubjectID, by session: SessionID, secretHash: String?,
    isVerified: Bool, at now: Timestamp, in db: SQLiteConnection, noting changes: inout SessionChanges
  ) throws(StorageError) -> LinkOutcome {
    let identity = Identity(
      kind: identifier.kind, value: identifier.canonical, mask: identifier.mask, linkedAt: now,
      verifiedAt: isVerified ? now : nil)
    guard try db.identities.insert(identity, secretHash: secretHash, of: account) else { return .taken }
    try db.lineage.note(.identity(identifier.kind, value: identifier.canonical), cameOf: [.session(session)])
    changes.notes.append(AuditNote(.identityLinked, at: now, subject: account, detail: identifier.mask))
    return .linked(identity)
  }

  package func unlink(
    _ identity: Identity, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> UnlinkOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try db.sessions.live(caller, at: now), !own.isGuest else { return .callerEnded }
      let account = own.subject
      let all = try db.identities.all(of: account)
      guard all.contains(where: { $0.kind == identity.kind && $0.value == identity.value }) else { return .notFound }
      guard all.count > 1 else { return .last }
      try db.execute(
        "DELETE FROM identities WHERE kind = ? AND value = ? AND sub = ?",
        .integer(identity.kind.rawValue), .text(identity.value), .id(account)
      )
      try db.lineage.remove(ancestorsOf: .identity(identity.kind, value: identity.value))
      try db.tickets.remove(of: account)
      changes.notes.append(AuditNote(.identityUnlinked, at: now, subject: account, detail: identity.mask))
      return .unlinked
    }
  }
}
