import LatchkeyModel
import Storage

/// Giving claims back, and when the next one is due.
extension SQLiteMigrationStore {
  private static let release = """
    UPDATE migrations SET lease = NULL, lease_until = NULL, run_at = ?3, failures = failures + 1
    WHERE id = ?1 AND lease = ?2 AND finished_at IS NULL
    """

  package func release(
    _ id: MigrationID,
    lease: JobLease,
    until time: Timestamp
  ) async throws(StorageError) {
    try await database.write { db throws(StorageError) in
      _ = try db.execute(Self.release, .id(id), .blob(lease.holder.bytes), .time(time))
    }
  }

  private static let rest = """
    UPDATE migrations SET lease = NULL, lease_until = NULL, run_at = ?3
    WHERE id = ?1 AND lease = ?2 AND finished_at IS NULL
    """

  package func rest(_ id: MigrationID, lease: JobLease, at now: Timestamp) async throws(StorageError) {
    try await database.write { db throws(StorageError) in
      _ = try db.execute(Self.rest, .id(id), .blob(lease.holder.bytes), .time(now))
    }
  }

  private static let releaseAll = """
    UPDATE migrations SET lease = NULL, lease_until = NULL WHERE lease IS NOT NULL AND finished_at IS NULL
    """

  package func releaseAll() async throws(StorageError) {
    try await database.write { db throws(StorageError) in
      _ = try db.execute(Self.releaseAll)
    }
  }

  private static let selectNextDue = """
    SELECT min(CASE WHEN lease IS NULL THEN run_at ELSE max(run_at, lease_until) END)
    FROM migrations WHERE finished_at IS NULL
    """

  package func nextDue() async throws(StorageError) -> Timestamp? {
    try await database.read { db throws(StorageError) in
      try db.first(Self.selectNextDue) { $0.optionalInteger(0) }?.map { Timestamp(millisecondsSinceEpoch: $0) }
    }
  }
}
