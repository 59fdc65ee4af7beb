import LatchkeyModel
import Storage

/// Sessions in SQLite.
package struct SQLiteSessionStore: SessionStore {
  let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func session(_ id: SessionID) async throws(StorageError) -> Session? {
    try await database.read { db throws(StorageError) in try db.sessions.find(id) }
  }

  package func live(
    of subject: SubjectID, at now: Timestamp, limit: Int
  ) async throws(StorageError) -> [Session] {
    try await database.read { db throws(StorageError) in
      try db.sessions.live(of: subject, at: now, limit: limit)
    }
  }

  package func ended(since: Timestamp) async throws(StorageError) -> [EndedSession] {
    try await database.read { db throws(StorageError) in try db.sessions.ended(since: since) }
  }

  package func purge(
    endedBefore before: Timestamp,
    at now: Timestamp,
    limit: Int
  ) async throws(StorageError) -> Int {
    try await database.write { db, changes throws(StorageError) in
      var purged = 0
      for statement in Self.purges {
        let bound = statement.isByNow ? now : before
        purged += try db.execute(statement.sql, .time(bound), .integer(limit))
      }
      return purged
    }
  }

  /// What is over, each with the index that finds it. Tables that are not here are pruned elsewhere or hold what lasts:
  /// one-time codes and sign-ins to repeat as new ones come, audit events and guests by their retention, purges when they
  /// are done, and the rest with whom it belongs to.
  static let purges: [(sql: String, isByNow: Bool)] = [
    // Before the sessions: what a code began is forgotten with what it began. Revoking it ends nothing any more.
    (
      """
      DELETE FROM qr_grants WHERE sid IN
        (SELECT sid FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)
      """, false
    ),
    (
      """
      DELETE FROM lineage WHERE descendant IN
        (SELECT CAST(x'73' || sid AS BLOB) FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)
      """, false
    ),
    (
      """
      DELETE FROM sessions WHERE sid IN
        (SELECT sid FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)
      """, false
    ),
    (
      """
      DELETE FROM qr_grants WHERE sid IN
        (SELECT sid FROM sessions WHERE ended_at IS NULL AND idle_expires_at < ? ORDER BY idle_expires_at LIMIT ?)
      """, false
    ),
    (
      """
      DELETE FROM lineage WHERE descendant IN
        (SELECT CAST(x'73' || sid AS BLOB) FROM sessions WHERE ended_at IS NULL AND idle_expires_at < ?
          ORDER BY idle_expires_at LIMIT ?)
      """, false
    ),
    (
      """
      DELETE FROM sessions WHERE sid IN
        (SELECT sid FROM sessions WHERE ended_at IS NULL AND idle_expires_at < ? ORDER BY idle_expires_at LIMIT ?)
      """, false
    ),
    // Codes that were revoked before they granted anything; the code itself is over within the hour.
    (
      """
      DELETE FROM qr_grants WHERE qr_session_id IN
        (SELECT qr_session_id FROM qr_grants WHERE sid IS NULL AND created_at < ? ORDER BY created_at LIMIT ?)
      """, false
    ),
    (
      """
      DELETE FROM used_challenges WHERE (expires_at, hash) IN
        (SELECT expires_at, hash FROM used_challenges WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
      """, true
    ),
    (
      """
      DELETE FROM link_tickets WHERE hash IN
        (SELECT hash FROM link_tickets WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
      """, true
    ),
    (
      """
      DELETE FROM transfers WHERE transfer_id IN
        (SELECT transfer_id FROM transfers WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
      """, true
    ),
    (
      """
      DELETE FROM sign_in_attempts WHERE (identifier_hash, device_key) IN
        (SELECT identifier_hash, device_key FROM sign_in_attempts WHERE last_at < ? ORDER BY last_at LIMIT ?)
      """, false
    ),
    // The audit log tells of merges for as long as it is kept.
    (
      """
      DELETE FROM merges WHERE merge_id IN
        (SELECT merge_id FROM merges WHERE state IN (2, 3) AND changed_at < ? ORDER BY changed_at LIMIT ?)
      """, false
    ),
    (
      """
      DELETE FROM merged_guests WHERE (guest_sub, device_key) IN
        (SELECT guest_sub, device_key FROM merged_guests WHERE merged_at < ? ORDER BY merged_at LIMIT ?)
      """, false
    ),
  ]
}
