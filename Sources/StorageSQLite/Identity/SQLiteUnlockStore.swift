import LatchkeyModel
import Storage

/// Unlocks in SQLite.
package struct SQLiteUnlockStore: UnlockStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func enrol(_ enrolment: UnlockEnrolment) async throws(StorageError) -> UnlockEnrolment.Outcome {
    try await database.write { db, changes throws(StorageError) in
      let now = enrolment.now
      guard let caller = try SessionRow.live(enrolment.session, at: now, in: db),
        try SubjectRow.find(caller.subject, in: db)?.isAccount == true
      else { return .callerEnded }
      guard caller.authority.isOwners else { return .unconfirmed }
      guard let device = caller.device.keyThumbprint,
        enrolment.kind == .key || enrolment.keyThumbprint == device
      else { return .notThisDevice }
      let earlier = try UnlockRow.find(enrolment.kind, enrolment.keyThumbprint, in: db)
      if enrolment.kind == .key, let earlier, earlier.account != caller.subject { return .taken }
      if earlier?.account != caller.subject,
        try UnlockRow.all(of: caller.subject, in: db).count >= UnlockRow.mostPerAccount
      {
        return .full
      }
      guard try ChallengeRow.spend(enrolment.challenge, in: db) else { return .challengeUsed }
      let unlock = Unlock(
        kind: enrolment.kind,
        keyThumbprint: enrolment.keyThumbprint,
        account: caller.subject,
        deviceKey: device,
        secretHash: enrolment.secretHash,
        enrolledAt: now
      )
      try UnlockRow.put(unlock, in: db)
      let member = LineageRow.Member.unlock(unlock.kind, key: unlock.keyThumbprint)
      try LineageRow.forget(member, in: db)
      try LineageRow.note(member, cameOf: [.session(caller.id)], in: db)
      changes.notes.append(
        AuditNote(
          .credentialEnrolled,
          at: now,
          subject: caller.subject,
          session: caller.id,
          detail: enrolment.kind.name
        )
      )
      return .enrolled(unlock, isNew: earlier?.account != caller.subject)
    }
  }

  package func unlocks(of account: SubjectID) async throws(StorageError) -> [Unlock] {
    try await database.read { db throws(StorageError) in try UnlockRow.all(of: account, in: db) }
  }

  package func key(_ keyThumbprint: String) async throws(StorageError) -> (unlock: Unlock, mask: String)? {
    try await database.read { db throws(StorageError) in
      guard let unlock = try UnlockRow.find(.key, keyThumbprint, in: db) else { return nil }
      return (unlock, try IdentityRow.mask(of: unlock.account, in: db))
    }
  }

  package func tryPattern(_ keyThumbprint: String) async throws(StorageError) -> (unlock: Unlock, mask: String)? {
    try await database.write { db, _ throws(StorageError) in
      guard let unlock = try UnlockRow.takeTry(keyThumbprint, in: db) else { return nil }
      return (unlock, try IdentityRow.mask(of: unlock.account, in: db))
    }
  }

  package func patternNotTried(_ keyThumbprint: String) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in try UnlockRow.returnTry(keyThumbprint, in: db) }
  }

  package func patternHeld(_ keyThumbprint: String) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in try UnlockRow.resetTries(keyThumbprint, in: db) }
  }

  package func remove(_ unlock: Unlock, at now: Timestamp) async throws(StorageError) -> Bool {
    try await database.write { db, changes throws(StorageError) in
      guard try UnlockRow.remove(unlock, in: db) else { return false }
      try LineageRow.forget(.unlock(unlock.kind, key: unlock.keyThumbprint), in: db)
      try TicketRow.voidAll(of: unlock.account, in: db)
      changes.notes.append(
        AuditNote(.credentialRemoved, at: now, subject: unlock.account, detail: unlock.kind.name)
      )
      return true
    }
  }
}
