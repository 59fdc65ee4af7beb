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
      guard let caller = try db.sessions.live(enrolment.session, at: now),
        try db.subjects.find(caller.subject)?.isAccount == true
      else { return .callerEnded }
      guard caller.authority.isOwners else { return .unconfirmed }
      guard let device = caller.device.keyThumbprint,
        enrolment.kind == .key || enrolment.keyThumbprint == device
      else { return .notThisDevice }
      let earlier = try db.unlocks.find(enrolment.kind, enrolment.keyThumbprint)
      if enrolment.kind == .key, let earlier, earlier.account != caller.subject { return .taken }
      if earlier?.account != caller.subject,
        try db.unlocks.all(of: caller.subject).count >= SQLiteUnlocks.mostPerAccount
      {
        return .full
      }
      guard try db.challenges.insert(enrolment.challenge) else { return .challengeUsed }
      let unlock = Unlock(
        kind: enrolment.kind,
        keyThumbprint: enrolment.keyThumbprint,
        account: caller.subject,
        deviceKey: device,
        secretHash: enrolment.secretHash,
        enrolledAt: now
      )
      try db.unlocks.put(unlock)
      let member = LineageMember.unlock(unlock.kind, key: unlock.keyThumbprint)
      try db.lineage.remove(ancestorsOf: member)
      try db.lineage.note(member, cameOf: [.session(caller.id)])
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
    try await database.read { db throws(StorageError) in try db.unlocks.all(of: account) }
  }

  package func key(_ keyThumbprint: String) async throws(StorageError) -> (unlock: Unlock, mask: String)? {
    try await database.read { db throws(StorageError) in
      guard let unlock = try db.unlocks.find(.key, keyThumbprint) else { return nil }
      return (unlock, try db.identities.first(of: unlock.account)?.mask ?? "")
    }
  }

  package func tryPattern(_ keyThumbprint: String) async throws(StorageError) -> (unlock: Unlock, mask: String)? {
    try await database.write { db, _ throws(StorageError) in
      guard let unlock = try db.unlocks.takeTry(keyThumbprint) else { return nil }
      return (unlock, try db.identities.first(of: unlock.account)?.mask ?? "")
    }
  }

  package func patternNotTried(_ keyThumbprint: String) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in try db.unlocks.returnTry(keyThumbprint) }
  }

  package func patternHeld(_ keyThumbprint: String) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in try db.unlocks.resetTries(keyThumbprint) }
  }

  package func remove(_ unlock: Unlock, at now: Timestamp) async throws(StorageError) -> Bool {
    try await database.write { db, changes throws(StorageError) in
      guard try db.unlocks.remove(unlock.kind, unlock.keyThumbprint, of: unlock.account) else { return false }
      try db.lineage.remove(ancestorsOf: .unlock(unlock.kind, key: unlock.keyThumbprint))
      try db.tickets.remove(of: unlock.account)
      changes.notes.append(
        AuditNote(.credentialRemoved, at: now, subject: unlock.account, detail: unlock.kind.name)
      )
      return true
    }
  }
}
