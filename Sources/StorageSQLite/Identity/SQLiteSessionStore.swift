import LatchkeyModel
import Storage

/// Sessions in SQLite.
package struct SQLiteSessionStore: SessionStore {
  let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func session(_ id: SessionID) async throws(StorageError) -> Session? {
    try await database.read { db throws(StorageError) in try SessionRow.find(id, in: db) }
  }

  package func live(
    of subject: SubjectID, at now: Timestamp, limit: Int
  ) async throws(StorageError) -> [Session] {
    try await database.read { db throws(StorageError) in
      try SessionRow.live(of: subject, at: now, limit: limit, in: db)
    }
  }

  package func revoke(
    _ id: SessionID,
    by caller: SessionID,
    at now: Timestamp
  ) async throws(StorageError) -> OwnSessionOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try SessionRow.live(caller, at: now, in: db) else { return .callerEnded }
      guard let session = try SessionRow.find(id, in: db), session.subject == own.subject else { return .notFound }
      guard session.id == own.id || own.isConfirmed else { return .unconfirmed }
      if session.id != own.id, let device = session.device.keyThumbprint, device != own.device.keyThumbprint {
        // Somebody else's hands may hold that device: nothing on it may let them in again.
        try UnlockRow.removeAll(of: own.subject, onDevice: device, at: now, in: db, noting: &changes)
      }
      try SessionRow.end(id, because: .revoked, at: now, in: db, noting: &changes)
      if session.isGuest, session.id != own.id, let device = session.device.keyThumbprint,
        device != own.device.keyThumbprint
      {
        try DeviceRow.releaseGuest(own.subject, from: device, in: db)
      }
      try LineageRow.endDescendants(
        of: .session(id), of: own.subject, except: session.id == own.id ? nil : own.id, because: .revoked, at: now,
        in: db, noting: &changes)
      return changes.ended.isEmpty ? .already : .changed
    }
  }

  package func confirm(
    _ id: SessionID,
    by caller: SessionID,
    at now: Timestamp
  ) async throws(StorageError) -> OwnSessionOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try SessionRow.live(caller, at: now, in: db) else { return .callerEnded }
      guard let session = try SessionRow.live(id, at: now, in: db), session.subject == own.subject else {
        return .notFound
      }
      if session.isConfirmed { return .already }
      guard own.isConfirmed else { return .unconfirmed }
      try SessionRow.confirm(id, at: now, in: db)
      changes.confirmed.append(id)
      return .changed
    }
  }

  package func refresh(
    _ id: SessionID,
    generation: Int64,
    at now: Timestamp,
    lifetimes: TokenLifetimes,
    isGenuine: @escaping @Sendable (Session) -> Bool
  ) async throws(StorageError) -> RefreshOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard var session = try SessionRow.find(id, in: db), isGenuine(session) else { return .unknown }
      if let ended = session.ended { return .ended(ended.why) }
      let family = lifetimes.family(isGuest: session.isGuest, method: session.method)
      switch session.family.present(generation: generation, at: now, lifetimes: family) {
      case .rotate:
        try SessionRow.updateFamily(of: session, in: db)
        return .refreshed(session)
      case .repeatNewest:
        return .refreshed(session)
      case .endForReuse:
        try SessionRow.end(id, because: .refreshReused, at: now, in: db, noting: &changes)
        try LineageRow.endDescendants(
          of: .session(id), of: session.subject, because: .refreshReused, at: now, in: db, noting: &changes)
        return .reused(session)
      case .expired:
        return .expired
      case .unknown:
        return .unknown
      }
    }
  }

  package func end(
    _ id: SessionID,
    because why: Session.End,
    at now: Timestamp
  ) async throws(StorageError) -> Bool {
    try await database.write { db, changes throws(StorageError) in
      try SessionRow.end(id, because: why, at: now, in: db, noting: &changes)
      if why == .revoked, let session = try SessionRow.find(id, in: db) {
        try LineageRow.endDescendants(
          of: .session(id), of: session.subject, because: why, at: now, in: db, noting: &changes)
      }
      return !changes.ended.isEmpty
    }
  }

  package func logOut(_ logOut: LogOut) async throws(StorageError) -> LogOutOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let caller = try SessionRow.live(logOut.session, at: logOut.now, in: db) else { return .sessionEnded }
      if logOut.reach != .local, !caller.isConfirmed,
        try SessionRow.live(of: caller.subject, at: logOut.now, limit: 2, in: db).count > 1
      {
        return .unconfirmed
      }
      var device: DeviceRow?
      if let key = caller.device.keyThumbprint { device = try DeviceRow.find(key, in: db) }
      if logOut.nextGuest != nil, device == nil { return .noDevice }
      switch logOut.reach {
      case .local:
        try SessionRow.end(caller.id, because: .loggedOut, at: logOut.now, in: db, noting: &changes)
      case .others:
        try UnlockRow.removeAll(
          of: caller.subject, exceptDevice: caller.device.keyThumbprint, at: logOut.now, in: db, noting: &changes)
        try SessionRow.endAll(
          of: caller.subject,
          except: caller.id,
          because: .loggedOut,
          at: logOut.now,
          in: db,
          noting: &changes
        )
        try TicketRow.voidAll(of: caller.subject, in: db)
      case .global:
        try TicketRow.voidAll(of: caller.subject, in: db)
        try UnlockRow.removeAll(of: caller.subject, exceptDevice: nil, at: logOut.now, in: db, noting: &changes)
        try SessionRow.endAll(of: caller.subject, because: .loggedOut, at: logOut.now, in: db, noting: &changes)
      }
      let count = changes.ended.count
      guard let next = logOut.nextGuest, let key = caller.device.keyThumbprint else {
        return .loggedOut(ended: count, guest: nil)
      }
      let guest = try GuestTransaction.begin(
        on: device, withKey: key, newSubject: next.newSubject, locale: nil, draft: next.draft, in: db, noting: &changes)
      return .loggedOut(ended: count, guest: guest)
    }
  }

  package func ended(since: Timestamp) async throws(StorageError) -> [EndedSession] {
    try await database.read { db throws(StorageError) in try SessionRow.ended(since: since, in: db) }
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
