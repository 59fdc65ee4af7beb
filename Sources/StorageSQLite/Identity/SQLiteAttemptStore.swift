import LatchkeyModel
import Storage

/// Failed tries in SQLite, counted for the account, or for what was tried where there is none: those of a known device or
/// network by themselves, those of strangers by network and all together.
package struct SQLiteAttemptStore: AttemptStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func begin(
    _ attempt: SignInAttempt, under policy: AttemptPolicy
  ) async throws(StorageError) -> AttemptOutcome {
    try await database.write { db, _ throws(StorageError) in
      let counts = try Self.counts(attempt, in: db)
      for name in counts {
        let counted = try db.first(
          "SELECT failures, last_at FROM sign_in_attempts WHERE identifier_hash = ? AND device_key = ?",
          .blob(attempt.targetHash), .text(name)
        ) { row in (failures: row.integer(0), last: row.timestamp(1)) }
        let policy = name == RequesterShare.everybody ? policy.together : policy
        if let counted, let wait = policy.wait(after: counted.failures, last: counted.last, at: attempt.now) {
          return .wait(wait)
        }
      }
      for name in counts {
        try db.execute(
          """
          INSERT INTO sign_in_attempts (identifier_hash, device_key, failures, last_at) VALUES (?, ?, 1, ?)
          ON CONFLICT (identifier_hash, device_key) DO UPDATE SET failures = failures + 1, last_at = excluded.last_at
          """,
          .blob(attempt.targetHash), .text(name), .time(attempt.now)
        )
      }
      return .allowed
    }
  }

  package func succeeded(_ attempt: SignInAttempt) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      for name in try Self.counts(attempt, in: db) {
        _ = try db.execute(
          "DELETE FROM sign_in_attempts WHERE identifier_hash = ? AND device_key = ?",
          .blob(attempt.targetHash), .text(name)
        )
      }
    }
  }

  package func notMade(_ attempt: SignInAttempt) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      for name in try Self.counts(attempt, in: db) {
        _ = try db.execute(
          """
          UPDATE sign_in_attempts SET failures = failures - 1
          WHERE identifier_hash = ? AND device_key = ? AND failures > 0
          """,
          .blob(attempt.targetHash), .text(name)
        )
      }
    }
  }

  /// What the try counts for.
  private static func counts(_ attempt: SignInAttempt, in db: SQLiteConnection) throws(StorageError) -> [String] {
    let share = try RequesterShare.find(attempt.requester, of: attempt.account, at: attempt.now, in: db)
    return share.isStranger ? [share.name, RequesterShare.everybody] : [share.name]
  }
}
