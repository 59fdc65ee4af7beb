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
        try db.unlocks.all(of: subject).compactMap { unlock in unlock.binding.map { (unlock.deviceKey, $0) } },
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
      let unlocks = try db.unlocks.all(of: subject)
      guard renamed > 0 || unlocks.contains(where: { $0.deviceKey == keyThumbprint }) else { return false }
      try db.execute(
        "UPDATE devices SET label = ? WHERE key_thumbprint = ?", .text(label.description), .text(keyThumbprint))
      return true
    }
  }
}
