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
      let spent = try db.execute(
        "INSERT INTO used_challenges (hash, expires_at) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING",
        .blob(issue.challengeHash), .time(issue.challengeExpiry)
      )
      changes.address = issue.draft.address
      guard spent == 1 else { return .challengeUsed }
      try DeviceRow.register(issue.device, at: issue.draft.now, in: db)
      return .issued(
        try GuestTransaction.begin(
          onDevice: issue.device.keyThumbprint,
          newSubject: issue.newSubject,
          locale: issue.locale,
          draft: issue.draft,
          in: db,
          noting: &changes
        ))
    }
  }
}
