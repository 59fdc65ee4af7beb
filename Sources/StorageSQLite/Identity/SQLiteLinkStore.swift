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
        guard owner == account else { return .taken }
        if let challenge, try !ChallengeRow.spend(challenge, in: db) { return .challengeUsed }
        if let code, try !SQLiteOneTimeCodeStore.spend(code, at: now, in: db) { return .codeSpent }
        if let secretHash {
          try IdentityRow.replaceSecret(of: identifier, with: secretHash, in: db)
          changes.notes.append(
            AuditNote(.credentialEnrolled, at: now, subject: account, detail: identifier.kind.name))
        }
        return .already(identity)
      }
      guard try IdentityRow.all(of: account, in: db).count < IdentityRow.mostPerAccount else { return .full }
      if let challenge, try !ChallengeRow.spend(challenge, in: db) { return .challengeUsed }
      if let code, try !SQLiteOneTimeCodeStore.spend(code, at: now, in: db) { return .codeSpent }
      guard try IdentityRow.insert(identifier, secretHash: secretHash, of: account, at: now, in: db) else {
        return .taken
      }
      let member = LineageRow.Member.identity(identifier.kind, value: identifier.canonical)
      try LineageRow.forget(member, in: db)
      try LineageRow.note(member, cameOf: [.session(own.id)], in: db)
      changes.notes.append(AuditNote(.identityLinked, at: now, subject: account, detail: identifier.mask))
      return .linked(
        Identity(kind: identifier.kind, value: identifier.canonical, mask: identifier.mask, linkedAt: now))
    }
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
