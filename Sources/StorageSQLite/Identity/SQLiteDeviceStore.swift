import LatchkeyModel
import Storage

/// Devices in SQLite. A device that only bound its tokens to a key, such as a screen, has no row in `devices`; what is
/// known of it comes from its sessions.
package struct SQLiteDeviceStore: DeviceStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func devices(of subject: SubjectID, at now: Timestamp) async throws(StorageError) -> [KnownDevice] {
    try await database.read { db throws(StorageError) in
      let bindings = Dictionary(
        try UnlockRow.all(of: subject, in: db).compactMap { unlock in unlock.binding.map { (unlock.deviceKey, $0) } },
        uniquingKeysWith: { first, _ in first })
      return try db.all(
        """
        SELECT used.device_key, coalesce(devices.label, used.label), coalesce(devices.platform, used.platform),
          devices.os_version, devices.app_version, coalesce(devices.created_at, used.since),
          max(coalesce(devices.last_seen_at, 0), used.until), used.sessions
        FROM (
          SELECT device_key, max(label) AS label, max(platform) AS platform, min(since) AS since, max(until) AS until,
            sum(sessions) AS sessions
          FROM (
            SELECT device_key, device_label AS label, device_platform AS platform, authenticated_at AS since,
              rotated_at AS until, 1 AS sessions
            FROM sessions
            WHERE sub = ?1 AND ended_at IS NULL AND device_key IS NOT NULL AND idle_expires_at > ?2
            UNION ALL
            SELECT device_key, NULL, NULL, created_at, created_at, 0 FROM unlocks WHERE sub = ?1
          )
          GROUP BY device_key
        ) AS used LEFT JOIN devices ON devices.key_thumbprint = used.device_key
        ORDER BY 7 DESC, 1
        """,
        .id(subject), .time(now)
      ) { row in
        KnownDevice(
          keyThumbprint: row.text(0),
          label: row.optionalText(1),
          platform: row.optionalText(2),
          osVersion: row.optionalText(3),
          appVersion: row.optionalText(4),
          firstSeenAt: row.timestamp(5),
          lastSeenAt: row.timestamp(6),
          sessions: Int(row.integer(7)),
          binding: bindings[row.text(0)]
        )
      }
    }
  }

  package func rename(
    _ keyThumbprint: String, of subject: SubjectID, to label: DisplayText, at now: Timestamp
  ) async throws(StorageError) -> Bool {
    try await database.write { db, _ throws(StorageError) in
      let renamed = try db.execute(
        """
        UPDATE sessions SET device_label = ?
        WHERE sub = ? AND device_key = ? AND ended_at IS NULL AND idle_expires_at > ?
        """,
        .text(label.description), .id(subject), .text(keyThumbprint), .time(now)
      )
      let unlocks = try UnlockRow.all(of: subject, in: db)
      guard renamed > 0 || unlocks.contains(where: { $0.deviceKey == keyThumbprint }) else { return false }
      try db.execute(
        "UPDATE devices SET label = ? WHERE key_thumbprint = ?", .text(label.description), .text(keyThumbprint))
      return true
    }
  }

  package func rotate(
    _ replacement: KeyReplacement, by caller: SessionID
  ) async throws(StorageError) -> KeyRotationOutcome {
    try await database.write { db, changes throws(StorageError) in
      let (old, new, now) = (replacement.oldKey, replacement.device.keyThumbprint, replacement.now)
      changes.address = replacement.address
      guard let own = try SessionRow.live(caller, at: now, in: db), own.device.keyThumbprint == old else {
        return .otherDevice
      }
      if try DeviceRow.find(old, in: db)?.isCloned == true { return .cloned }
      guard try Self.isFree(new, in: db) else { return .keyInUse }
      guard try ChallengeRow.spend(replacement.challengeHash, until: replacement.challengeExpiry, in: db) else {
        return .challengeUsed
      }
      let users = try DeviceRow.users(of: old, and: own.subject, in: db)
      try DeviceRow.register(replacement.device, at: now, in: db)
      try DeviceRow.rekey(from: old, to: new, keepsBinding: true, in: db)
      var moved = 0
      for user in users { moved += try SessionRow.rekey(of: user, from: old, to: new, in: db) }
      changes.notes.append(
        AuditNote(
          .deviceKeyRotated, at: now, subject: own.subject, session: own.id, address: replacement.address))
      return .rotated(sessionsMoved: moved)
    }
  }

  package func resolveClone(
    _ replacement: KeyReplacement, _ choice: CloneChoice, newSubject: SubjectID, draft: SessionDraft
  ) async throws(StorageError) -> CloneOutcome {
    try await database.write { db, changes throws(StorageError) in
      let (old, new, now) = (replacement.oldKey, replacement.device.keyThumbprint, replacement.now)
      changes.address = replacement.address
      // First: who asks again because the answer was lost finds the new key in use, by its own doing.
      guard try Self.isFree(new, in: db) else { return .keyInUse }
      guard let cloned = try DeviceRow.find(old, in: db), cloned.isCloned else { return .notCloned }
      if choice == .transfer {
        // Who is moved must be there; nobody is made.
        guard let guest = cloned.guest, let subject = try SubjectRow.find(guest, in: db), subject.isGuest,
          subject.isUsable
        else { return .guestGone }
      }
      guard try ChallengeRow.spend(replacement.challengeHash, until: replacement.challengeExpiry, in: db) else {
        return .challengeUsed
      }
      try DeviceRow.register(replacement.device, at: now, in: db)
      var draft = draft
      if choice == .transfer {
        // Who was nothing without the old key is nothing without the new one, whatever this call proved.
        if let guest = cloned.guest, try SessionRow.wasBound(of: guest, onDevice: old, in: db) {
          draft.boundKeyThumbprint = new
        }
        for user in try DeviceRow.users(of: old, in: db) {
          try SessionRow.endAll(of: user, onDevice: old, because: .cloned, at: now, in: db, noting: &changes)
        }
        try DeviceRow.rekey(from: old, to: new, keepsBinding: false, in: db)
      }
      try DeviceRow.setNotCloned(old, in: db)
      let guest = try GuestTransaction.begin(
        on: try DeviceRow.find(new, in: db), withKey: new, newSubject: newSubject, locale: nil, draft: draft, in: db,
        noting: &changes)
      guard let guest else { return .guestGone }
      changes.notes.append(
        AuditNote(
          .cloneResolved, at: now, subject: guest.session.subject, session: guest.session.id,
          address: replacement.address, detail: choice == .transfer ? "transfer" : "split"))
      return .resolved(guest)
    }
  }

  /// Whether nobody uses a key yet.
  private static func isFree(_ keyThumbprint: String, in db: SQLiteConnection) throws(StorageError) -> Bool {
    let device = try DeviceRow.find(keyThumbprint, in: db)
    guard device?.guest == nil, device?.lastAccount == nil else { return false }
    return try UnlockRow.find(.key, keyThumbprint, in: db) == nil
  }

  package func remove(
    _ keyThumbprint: String, by caller: SessionID, at now: Timestamp
  ) async throws(StorageError) -> DeviceRemovalOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try SessionRow.live(caller, at: now, in: db) else { return .callerEnded }
      guard own.device.keyThumbprint == keyThumbprint || own.isConfirmed else { return .unconfirmed }
      try UnlockRow.removeAll(of: own.subject, onDevice: keyThumbprint, at: now, in: db, noting: &changes)
      try SessionRow.endAll(
        of: own.subject, onDevice: keyThumbprint, because: .revoked, at: now, in: db, noting: &changes)
      return .removed(sessionsEnded: changes.ended.count)
    }
  }
}
