import LatchkeyModel
import Storage

/// Pending merges in SQLite.
package struct SQLiteMergeStore: MergeStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge] {
    try await database.read { db throws(StorageError) in try db.merges.due(at: now, limit: limit) }
  }

  package func merge(_ id: MergeID) async throws(StorageError) -> PendingMerge? {
    try await database.read { db throws(StorageError) in try db.merges.find(id) }
  }

  package func notePlan(_ plan: PendingMerge.Plan?, of id: MergeID) async throws(StorageError) {
    try await database.write { db, changes throws(StorageError) in
      _ = try db.execute(
        "UPDATE merges SET plan_id = ?, plan_digest = ? WHERE merge_id = ? AND state = 0",
        .optional(plan?.id), .optional(plan?.digest), .id(id)
      )
    }
  }

  package func noteStarted(_ id: MergeID, migration: String, at now: Timestamp) async throws(StorageError) {
    try await database.write { db, changes throws(StorageError) in
      // Completion may have come first, from a migrator faster than its own answer; the number is kept either way.
      _ = try db.execute(
        """
        UPDATE merges SET state = max(state, 1), migration_id = ?, last_error = NULL, changed_at = ?
        WHERE merge_id = ? AND state IN (0, 1, 2)
        """,
        .text(migration), .time(now), .id(id)
      )
    }
  }

  package func noteFailure(_ id: MergeID, reason: String, next: Timestamp) async throws(StorageError) {
    try await database.write { db, changes throws(StorageError) in
      _ = try db.execute(
        """
        UPDATE merges SET attempts = attempts + 1, next_attempt_at = ?, last_error = ?
        WHERE merge_id = ? AND state = 0
        """,
        .time(next), .text(reason), .id(id)
      )
    }
  }

  package func abandon(_ id: MergeID, reason: String, at now: Timestamp) async throws(StorageError) {
    try await database.write { db, changes throws(StorageError) in
      guard let merge = try db.merges.find(id) else { return }
      let count = try db.execute(
        "UPDATE merges SET state = 3, last_error = ?, changed_at = ? WHERE merge_id = ? AND state = 0",
        .text(reason), .time(now), .id(id)
      )
      if count > 0 { Self.note(merge, reason, at: now, &changes) }
    }
  }

  package func fail(
    migration: String, guest: SubjectID, target: SubjectID, reason: String, at now: Timestamp
  ) async throws(StorageError) -> Bool {
    try await database.write { db, changes throws(StorageError) in
      // By its number or, when the answer with the number was lost, by who moves where.
      guard var merge = try db.merges.open(of: guest), merge.target == target,
        merge.migration == nil || merge.migration == migration
      else { return false }
      merge.migration = migration
      try db.execute(
        """
        UPDATE merges SET state = 3, migration_id = ?, last_error = ?, changed_at = ?
        WHERE merge_id = ? AND state IN (0, 1)
        """,
        .text(migration), .text(reason), .time(now), .id(merge.id)
      )
      Self.note(merge, reason, at: now, &changes)
      return true
    }
  }

  private static let noteDevices = """
    INSERT INTO merged_guests (guest_sub, device_key, merged_at)
    SELECT guest_sub, key_thumbprint, ?2 FROM devices WHERE guest_sub = ?1
    ON CONFLICT (guest_sub, device_key) DO UPDATE SET merged_at = excluded.merged_at
    """
  private static let selectDevices = "SELECT device_key FROM merged_guests WHERE guest_sub = ? ORDER BY device_key"
  private static let forgetDevices = "DELETE FROM merged_guests WHERE guest_sub = ?"

  package func restore(
    guest: SubjectID, from target: SubjectID, at now: Timestamp
  ) async throws(StorageError) -> RestoreOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard var subject = try db.subjects.find(guest) else { return .unknownGuest }
      switch subject.restore(from: target) {
      case .already: return .already
      case .refused: return .refused
      case .done: break
      }
      let keys = try db.all(Self.selectDevices, .id(guest)) { $0.text(0) }
      var isReachable = false
      for key in keys {
        guard let device = try db.devices.find(key) else { continue }
        // Whoever uses that device as a guest by now would lose what they made.
        guard device.guest == nil else { return .replaced }
        isReachable = true
      }
      guard isReachable else { return .replaced }
      try db.subjects.change(subject, usedAt: now)
      for key in keys { try db.devices.change(key, guest: guest) }
      try db.execute(Self.forgetDevices, .id(guest))
      changes.notes.append(AuditNote(.guestRestored, at: now, subject: guest, detail: "from \(target)"))
      return .restored
    }
  }

  private static func note(
    _ merge: PendingMerge, _ reason: String, at now: Timestamp, _ changes: inout SessionChanges
  ) {
    changes.failedMerges.append(FailedMerge(target: merge.target, migration: merge.migration, at: now))
    changes.notes.append(
      AuditNote(.mergeAbandoned, at: now, subject: merge.guest, detail: "into \(merge.target): \(reason)"))
  }

  package func complete(
    migration: String, guest: SubjectID, target: SubjectID, at now: Timestamp
  ) async throws(StorageError) -> CompletionOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard var subject = try db.subjects.find(guest) else { return .unknownGuest }
      guard let account = try db.subjects.find(target), account.isAccount else { return .unknownTarget }
      switch subject.merge(into: target) {
      case .already: return .already
      case .refused: return .refused
      case .done: break
      }
      try db.subjects.change(subject, usedAt: now)
      try db.execute(Self.noteDevices, .id(guest), .time(now))
      try db.devices.removeGuest(guest)
      try GuideRow.merge(guest, into: target, at: now, in: db)
      changes.ended += try db.sessions.end(of: guest, because: .merged, at: now)
      try db.execute(
        "UPDATE merges SET state = 2, migration_id = ?, changed_at = ? WHERE guest_sub = ? AND state IN (0, 1)",
        .text(migration), .time(now), .id(guest)
      )
      changes.notes.append(AuditNote(.guestMerged, at: now, subject: guest, detail: "into \(target)"))
      return .completed(sessionsEnded: changes.ended.count)
    }
  }
}
