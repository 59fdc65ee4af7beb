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
      try DeviceRow.register(issue.device, at: issue.draft.now, in: db)
      return .issued(
        try GuestTransaction.begin(
          onDevice: issue.device.keyThumbprint,
          newSubject: issue.newSubject,
          locale: issue.locale,
          draft: issue.draft,
          in: db,
          noting: &changes
        )
      )
    }
  }
}
