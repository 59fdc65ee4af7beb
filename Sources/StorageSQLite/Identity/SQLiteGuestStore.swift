import LatchkeyModel
import Storage

/// Guests in SQLite.
package struct SQLiteGuestStore: GuestStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func issue(_ issue: GuestIssue) async throws(StorageError) -> GuestIssueOutcome {
    try await database.write { db, changes throws(StorageError) in
      changes.address = issue.draft.address
      guard try ChallengeRow.spend(issue.challengeHash, until: issue.challengeExpiry, in: db) else {
        return .challengeUsed
      }
      let key = issue.device.keyThumbprint
      let known = try DeviceRow.find(key, in: db)
      if known?.isCloned == true { return .cloned }
      if !issue.mayBeNew, known?.guest == nil { return .full }
      var counter = known?.counter
      if let last = counter?.highest, counter?.take(issue.counter) == false {
        try DeviceRow.setCloned(issue.draft.now, key, in: db)
        changes.notes.append(
          AuditNote(
            .deviceCloned, at: issue.draft.now, subject: known?.guest, address: issue.draft.address,
            detail: "counter \(issue.counter) after \(last)"))
        return .cloned
      }
      if counter == nil, issue.counter > 0 { counter = ProofCounter(first: issue.counter) }
      try DeviceRow.register(issue.device, counter: counter, at: issue.draft.now, in: db)
      let guest = try GuestTransaction.begin(
        on: known, withKey: key, newSubject: issue.newSubject, locale: issue.locale, draft: issue.draft, in: db,
        noting: &changes)
      return guest.map { .issued($0) } ?? .disabled
    }
  }
}
