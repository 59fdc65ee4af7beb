import LatchkeyModel
import Storage

/// What an account's owner changes of it, in SQLite.
package struct SQLiteOwnerStore: OwnerStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func updateProfile(
    by caller: SessionID, at now: Timestamp, _ change: @escaping @Sendable (inout Profile) -> Void
  ) async throws(StorageError) -> Profile? {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try db.sessions.live(caller, at: now),
        var subject = try db.subjects.find(own.subject), subject.isAccount
      else { return nil }
      change(&subject.profile)
      try db.subjects.change(subject, usedAt: now)
      return subject.profile
    }
  }

  package func changePassword(_ change: PasswordChange) async throws(StorageError) -> PasswordChange.Outcome {
    try await database.write { db, changes throws(StorageError) in
      let now = change.now
      changes.address = change.address
      // Every refusal comes before the first change: an outcome is committed, whatever it says.
      let account: SubjectID
      var kept: Session?
      switch change.authority {
      case .session(let caller):
        guard let own = try db.sessions.live(caller, at: now), !own.isGuest else { return .callerEnded }
        account = own.subject
        kept = own
        guard try Self.hash(of: account, in: db) == change.currentHash else { return .stale }
      case .code(let subject, let identifier, let code):
        guard let (identity, owner) = try db.identities.find(identifier), owner == subject, identity.isProven,
          let found = try db.subjects.find(subject), found.isAccount
        else { return .codeSpent }
        if found.isDisabled { return .disabled }
        guard try db.codes.spend(code, at: now) else { return .codeSpent }
        account = subject
      }
      if change.newHash == nil, try !Self.hasOtherWayIn(account, in: db) { return .lastWayIn }
      if let hash = change.newHash {
        try db.execute(
          "INSERT OR REPLACE INTO passwords (sub, hash, changed_at) VALUES (?, ?, ?)",
          .id(account), .text(hash), .time(now))
      } else {
        try db.execute("DELETE FROM passwords WHERE sub = ?", .id(account))
      }
      // What was begun by the old password is not finished by it.
      try db.execute("DELETE FROM link_tickets WHERE account_sub = ?", .id(account))
      if change.endsOthers {
        try changes.removeUnlocks(of: account, exceptDevice: kept?.device.keyThumbprint, at: now, in: db)
        try db.execute("DELETE FROM transfers WHERE sub = ?", .id(account))
        changes.ended += try db.sessions.end(of: account, except: kept?.id, because: .loggedOut, at: now)
      }
      let kind: AuditNote.Kind = change.newHash == nil ? .passwordRemoved : .passwordChanged
      var detail = ""
      if case .code(_, let identifier, _) = change.authority { detail = "recovered by \(identifier.mask)" }
      changes.notes.append(AuditNote(kind, at: now, subject: account, session: kept?.id, detail: detail))
      return .changed(PasswordChanged(account: account, sessionsEnded: changes.ended.count))
    }
  }

  package func verify(
    _ identifier: AccountIdentifier, by caller: SessionID, code: OneTimeCode, at now: Timestamp
  ) async throws(StorageError) -> VerificationOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try db.sessions.live(caller, at: now), !own.isGuest else { return .callerEnded }
      guard let (identity, owner) = try db.identities.find(identifier), owner == own.subject else {
        return .notFound
      }
      guard try db.codes.spend(code, at: now) else { return .codeSpent }
      try changes.verify(identifier, of: own.subject, at: now, in: db)
      return identity.isProven ? .already : .verified
    }
  }

  private static func hash(of account: SubjectID, in db: SQLiteConnection) throws(StorageError) -> String? {
    try db.first("SELECT hash FROM passwords WHERE sub = ?", .id(account)) { $0.text(0) }
  }

  /// Whether something leads to the account that needs no password: a verified address, a provider, a secret of its own.
  private static func hasOtherWayIn(_ account: SubjectID, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try db.first(
      "SELECT 1 FROM identities WHERE sub = ? AND (verified_at IS NOT NULL OR secret_hash IS NOT NULL OR kind = ?) LIMIT 1",
      .id(account), .integer(AccountIdentifier.Kind.oidc.rawValue)
    ) { _ in true } ?? false
  }
}
