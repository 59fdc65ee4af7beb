import LatchkeyModel
import Storage

/// Identities in SQLite.
package struct SQLiteLinkStore: LinkStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func identities(of account: SubjectID) async throws(StorageError) -> [Identity] {
    try await database.read { db throws(StorageError) in try IdentityRow.all(of: account, in: db) }
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
      guard let own = try SessionRow.live(caller, at: now, in: db), !own.isGuest else { return .callerEnded }
      let account = own.subject
      if let (identity, owner) = try IdentityRow.find(identifier, in: db) {
        if owner != account, identity.isProven { return .taken }
        if owner != account, code == nil { return .unproven }
        if owner != account {
          return try Self.takeOver(identifier, from: owner, by: own, code: code, at: now, in: db, noting: &changes)
        }
        if let challenge, try !ChallengeRow.spend(challenge, in: db) { return .challengeUsed }
        if let code, try !SQLiteOneTimeCodeStore.spend(code, at: now, in: db) { return .codeSpent }
        if let secretHash {
          try IdentityRow.replaceSecret(of: identifier, with: secretHash, in: db)
          changes.notes.append(
            AuditNote(.credentialEnrolled, at: now, subject: account, detail: identifier.kind.name))
        }
        if code != nil { try IdentityRow.verify(identifier, of: account, at: now, in: db, noting: &changes) }
        return .already(try IdentityRow.find(identifier, in: db)?.identity ?? identity)
      }
      guard try IdentityRow.all(of: account, in: db).count < IdentityRow.mostPerAccount else { return .full }
      if let challenge, try !ChallengeRow.spend(challenge, in: db) { return .challengeUsed }
      if let code, try !SQLiteOneTimeCodeStore.spend(code, at: now, in: db) { return .codeSpent }
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
    guard try IdentityRow.all(of: account, in: db).count < IdentityRow.mostPerAccount else { return .full }
    guard let code, try SQLiteOneTimeCodeStore.spend(code, at: now, in: db) else { return .codeSpent }
    try IdentityRow.release(identifier, from: holder, at: now, in: db, noting: &changes)
    return try add(
      identifier, to: account, by: own.id, secretHash: nil, isVerified: true, at: now, in: db, noting: &changes)
  }

  private static func add(
    _ identifier: AccountIdentifier, to account: SubjectID, by session: SessionID, secretHash: String?,
    isVerified: Bool, at now: Timestamp, in db: SQLiteConnection, noting changes: inout SessionChanges
  ) throws(StorageError) -> LinkOutcome {
    guard
      try IdentityRow.insert(
        identifier, secretHash: secretHash, isVerified: isVerified, of: account, at: now, in: db)
    else { return .taken }
    try LineageRow.note(.identity(identifier.kind, value: identifier.canonical), cameOf: [.session(session)], in: db)
    changes.notes.append(AuditNote(.identityLinked, at: now, subject: account, detail: identifier.mask))
    return .linked(
      Identity(
        kind: identifier.kind, value: identifier.canonical, mask: identifier.mask, linkedAt: now,
        verifiedAt: isVerified ? now : nil))
  }

  package func unlink(
    _ identity: Identity, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> UnlinkOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try SessionRow.live(caller, at: now, in: db), !own.isGuest else { return .callerEnded }
      let account = own.subject
      let all = try IdentityRow.all(of: account, in: db)
      guard all.contains(where: { $0.kind == identity.kind && $0.value == identity.value }) else { return .notFound }
      guard all.count > 1 else { return .last }
      try db.execute(
        "DELETE FROM identities WHERE kind = ? AND value = ? AND sub = ?",
        .integer(identity.kind.rawValue), .text(identity.value), .id(account)
      )
      try LineageRow.forget(.identity(identity.kind, value: identity.value), in: db)
      try TicketRow.voidAll(of: account, in: db)
      changes.notes.append(AuditNote(.identityUnlinked, at: now, subject: account, detail: identity.mask))
      return .unlinked
    }
  }
}
