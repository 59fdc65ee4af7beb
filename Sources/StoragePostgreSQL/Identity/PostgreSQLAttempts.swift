import LatchkeyModel
import Storage

/// The table `sign_in_attempts`.
struct PostgreSQLAttempts: AttemptRows {
  let db: PostgreSQLConnection

  func lock(_ target: [UInt8], _ share: String) async throws(StorageError) -> CountedTries? {
    try await db.lock("sign_in_attempts", .bytes(target), .text(share))
    return try await db.first(
      "SELECT failures, last_at FROM sign_in_attempts WHERE identifier_hash = $1 AND device_key = $2 FOR UPDATE",
      .bytes(target), .text(share)
    ) { row in CountedTries(failures: row.integer(0), lastAt: row.timestamp(1)) }
  }

  func put(_ tries: CountedTries, _ target: [UInt8], _ share: String) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO sign_in_attempts (identifier_hash, device_key, failures, last_at) VALUES ($1, $2, $3, $4)
      ON CONFLICT (identifier_hash, device_key) DO UPDATE SET failures = excluded.failures, last_at = excluded.last_at
      """,
      .bytes(target), .text(share), .integer(tries.failures), .time(tries.lastAt)
    )
  }

  func remove(_ target: [UInt8], _ share: String) async throws(StorageError) {
    try await db.execute(
      "DELETE FROM sign_in_attempts WHERE identifier_hash = $1 AND device_key = $2", .bytes(target), .text(share))
  }

  static let removeOld = """
    WITH old AS MATERIALIZED (
      SELECT identifier_hash, device_key FROM sign_in_attempts
      WHERE last_hour <= $1::bigint / 3600000 AND last_at < $1::bigint
      ORDER BY last_hour, last_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM sign_in_attempts USING old
    WHERE sign_in_attempts.identifier_hash = old.identifier_hash AND sign_in_attempts.device_key = old.device_key
    """

  func remove(lastBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.removeOld, .time(time), .integer(limit))
  }
}
