import LatchkeyModel
import Storage

/// Guests and accounts in SQLite.
package struct SQLiteSubjectStore: SubjectStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func standing(of subject: SubjectID) async throws(StorageError) -> SubjectStanding? {
    try await database.read { db throws(StorageError) in
      guard let found = try db.subjects.find(subject) else { return nil }
      let times = try db.first("SELECT last_seen_at, exported_at FROM subjects WHERE sub = ?", .id(subject)) { row in
        (row.timestamp(0), row.optionalInteger(1).map { Timestamp(millisecondsSinceEpoch: $0) })
      }
      guard let times else { return nil }
      return SubjectStanding(subject: found, lastSeenAt: times.0, exportedAt: times.1)
    }
  }

  package func owner(of identifier: AccountIdentifier) async throws(StorageError) -> SubjectID? {
    try await database.read { db throws(StorageError) in try db.identities.find(identifier)?.owner }
  }

  // MARK: Ends

  package func delete(_ deletion: SubjectDeletion) async throws(StorageError) -> DeletionOutcome {
    try await database.write { db, changes throws(StorageError) in
      let (id, now) = (deletion.subject, deletion.now)
      changes.address = deletion.address
      guard let subject = try db.subjects.find(id), subject.isGuest || subject.isAccount else {
        return .notFound
      }
      var detail = ""
      switch deletion.authority {
      case .guest(let caller):
        guard let own = try db.sessions.live(caller, at: now), own.subject == id else { return .callerEnded }
        guard subject.isGuest else { return .notGuest }
      case .account(let caller):
        guard let own = try db.sessions.live(caller, at: now), own.subject == id else { return .callerEnded }
        guard subject.isAccount else { return .notAccount }
      case .administrator(let word): detail = word
      case .unused(let before):
        guard subject.isGuest else { return .notGuest }
        guard try Self.lastUse(of: id, in: db) < before else { return .used }
        detail = "unused"
      }
      if subject.isGuest, try db.merges.open(of: id) != nil { return .merging }
      changes.ended += try db.sessions.end(of: id, because: .subjectDeleted, at: now)
      for statement in Self.removals { try db.execute(statement, .id(id)) }
      try db.execute(
        "UPDATE subjects SET deleted_at = ?, nickname = NULL, avatar_url = NULL, locale = NULL WHERE sub = ?",
        .time(now), .id(id)
      )
      try db.execute(
        "INSERT INTO purges (sub, attempts, next_attempt_at) VALUES (?, 0, ?)", .id(id), .time(deletion.purgeDueAt))
      changes.notes.append(
        AuditNote(
          subject.isGuest ? .guestDeleted : .accountDeleted, at: now, subject: id, address: deletion.address,
          detail: detail))
      return .deleted(sessionsEnded: changes.ended.count)
    }
  }

  /// Everything that tells who somebody was. The merges of others into an account that goes away end where they are
  /// completed: then there is no such account.
  static let removals = [
    "DELETE FROM identities WHERE sub = ?",
    "DELETE FROM passwords WHERE sub = ?",
    "DELETE FROM guide_progress WHERE sub = ?",
    "DELETE FROM link_tickets WHERE account_sub = ?",
    "DELETE FROM transfers WHERE sub = ?",
    "DELETE FROM unlocks WHERE sub = ?",
    "DELETE FROM sign_in_sources WHERE sub = ?",
    "DELETE FROM devices WHERE guest_sub = ? AND last_account_sub IS NULL",
    "UPDATE devices SET guest_sub = NULL WHERE guest_sub = ?",
    """
    UPDATE devices SET last_account_sub = NULL, last_login_method = NULL, last_login_mask = NULL, last_login_at = NULL
    WHERE last_account_sub = ?
    """,
  ]

  package func setDisabled(
    _ isDisabled: Bool, _ subject: SubjectID, detail: String, at now: Timestamp
  ) async throws(StorageError) -> Int? {
    try await database.write { db, changes throws(StorageError) in
      guard let found = try db.subjects.find(subject), found.isGuest || found.isAccount else { return nil }
      if found.isDisabled != isDisabled {
        try db.execute(
          "UPDATE subjects SET disabled_at = ? WHERE sub = ?", isDisabled ? .time(now) : .null, .id(subject))
        changes.notes.append(
          AuditNote(isDisabled ? .subjectDisabled : .subjectEnabled, at: now, subject: subject, detail: detail))
      }
      if isDisabled {
        changes.ended += try db.sessions.end(of: subject, because: .subjectDisabled, at: now)
        try db.tickets.remove(of: subject)
      }
      return changes.ended.count
    }
  }

  package func endSessions(
    of subject: SubjectID, detail: String, at now: Timestamp
  ) async throws(StorageError) -> Int? {
    try await database.write { db, changes throws(StorageError) in
      guard let found = try db.subjects.find(subject), found.isGuest || found.isAccount else { return nil }
      changes.ended += try db.sessions.end(of: subject, because: .administrator, at: now)
      try db.tickets.remove(of: subject)
      changes.notes.append(AuditNote(.adminChanged, at: now, subject: subject, detail: "ended sessions: \(detail)"))
      return changes.ended.count
    }
  }

  package func endSessions(
    begunUntil time: Timestamp, limit: Int, at now: Timestamp
  ) async throws(StorageError) -> Int {
    try await database.write { db, changes throws(StorageError) in
      changes.ended += try db.sessions.end(begunUntil: time, limit: limit, because: .administrator, at: now)
      return changes.ended.count
    }
  }

  // MARK: Retention

  package func noteExport(
    of subject: SubjectID, recordsVersion: Int64, at now: Timestamp
  ) async throws(StorageError) {
    try await database.write { db, changes throws(StorageError) in
      try db.execute(
        "UPDATE subjects SET exported_at = ?, exported_version = ? WHERE sub = ? AND deleted_at IS NULL",
        .time(now), .integer(recordsVersion), .id(subject)
      )
      changes.notes.append(AuditNote(.guestExported, at: now, subject: subject))
    }
  }

  package func guestCount() async throws(StorageError) -> Int {
    try await database.read { db throws(StorageError) in
      Int(try db.first("SELECT count(*) FROM subjects WHERE kind = 0 AND deleted_at IS NULL") { $0.integer(0) } ?? 0)
    }
  }

  package func unusedGuests(
    before time: Timestamp, after last: UnusedGuest?, limit: Int
  ) async throws(StorageError) -> [UnusedGuest] {
    try await database.read { db throws(StorageError) in
      try db.all(
        """
        SELECT sub, last_seen_at, exported_version FROM subjects
        WHERE kind = 0 AND deleted_at IS NULL AND last_seen_at < ?1 AND (last_seen_at, sub) > (?2, ?3)
        ORDER BY last_seen_at, sub LIMIT ?4
        """,
        .time(time), .integer(last?.lastSeenAt.millisecondsSinceEpoch ?? .min), .blob(last?.id.bytes ?? []),
        .integer(limit)
      ) { row throws(StorageError) in
        UnusedGuest(id: try row.id(0), lastSeenAt: row.timestamp(1), exportedVersion: row.optionalInteger(2))
      }
    }
  }

  /// When a subject asked for a session or renewed one.
  private static func lastUse(of subject: SubjectID, in db: SQLiteConnection) throws(StorageError) -> Timestamp {
    let time = try db.first(
      """
      SELECT max(last_seen_at, coalesce(
        (SELECT max(rotated_at) FROM sessions WHERE sessions.sub = ?1 AND ended_at IS NULL), 0))
      FROM subjects WHERE sub = ?1
      """,
      .id(subject)
    ) { $0.timestamp(0) }
    return time ?? Timestamp(millisecondsSinceEpoch: .max)
  }

  // MARK: Purges

  package func duePurges(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge] {
    try await database.read { db throws(StorageError) in
      try db.all(
        "SELECT sub, attempts FROM purges WHERE next_attempt_at <= ? ORDER BY next_attempt_at LIMIT ?",
        .time(now), .integer(limit)
      ) { row throws(StorageError) in PendingPurge(subject: try row.id(0), attempts: row.integer(1)) }
    }
  }

  package func purged(_ subject: SubjectID) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      _ = try db.execute("DELETE FROM purges WHERE sub = ?", .id(subject))
    }
  }

  package func postponePurge(of subject: SubjectID, until next: Timestamp) async throws(StorageError) {
    try await database.write { db, _ throws(StorageError) in
      _ = try db.execute(
        "UPDATE purges SET attempts = attempts + 1, next_attempt_at = ? WHERE sub = ?", .time(next), .id(subject))
    }
  }
}
