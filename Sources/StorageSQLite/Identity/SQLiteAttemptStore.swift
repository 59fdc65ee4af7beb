import LatchkeyModel
import Storage

/// Failed tries in SQLite, counted by identifier and, for a device on which the account was used before, by device.
package struct SQLiteAttemptStore: AttemptStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func begin(
    _ attempt: SignInAttempt, under policy: AttemptPolicy
  ) async throws(StorageError) -> AttemptOutcome {
    try await database.write { db, _ throws(StorageError) in
      let device = try Self.knownDevice(attempt, in: db)
      let counted = try db.first(
        "SELECT failures, last_at FROM sign_in_attempts WHERE identifier_hash = ? AND device_key = ?",
        .blob(attempt.identifierHash), .text(device)
      ) { row in (failures: row.integer(0), last: row.timestamp(1)) }
      if let counted, let wait = policy.wait(after: counted.failures, last: counted.last, at: attempt.now) {
        return .wait(wait)
      }
      try db.execute(
        """
        INSERT INTO sign_in_attempts (identifier_hash, device_key, failures, last_at) VALUES (?, ?, 1, ?)
        ON CONFLICT (identifier_hash, device_key) DO UPDATE SET failures = failures + 1, last_at = excluded.last_at
        """,
        .blob(attempt.identifierHash), .text(device), .time(attempt.now)
      )
      return .allowed
    }
  }

  package func succeeded(_ attempt: SignInAttempt) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      let device = try Self.knownDevice(attempt, in: db)
      _ = try db.execute(
        "DELETE FROM sign_in_attempts WHERE identifier_hash = ? AND device_key = ?",
        .blob(attempt.identifierHash), .text(device)
      )
    }
  }

  package func notMade(_ attempt: SignInAttempt) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      let device = try Self.knownDevice(attempt, in: db)
      _ = try db.execute(
        """
        UPDATE sign_in_attempts SET failures = failures - 1
        WHERE identifier_hash = ? AND device_key = ? AND failures > 0
        """,
        .blob(attempt.identifierHash), .text(device)
      )
    }
  }

  /// The key of a device on which the account was used before; empty for strangers, who are counted together.
  private static func knownDevice(_ attempt: SignInAttempt, in db: SQLiteConnection) throws(StorageError) -> String {
    guard let account = attempt.account, let guest = attempt.guestSession,
      let key = try SessionRow.live(guest, at: attempt.now, in: db)?.device.keyThumbprint,
      try SessionRow.hasSession(of: account, onDevice: key, in: db)
    else { return "" }
    return key
  }
}
