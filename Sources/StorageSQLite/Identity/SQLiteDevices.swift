import LatchkeyModel
import Storage

/// The table `devices`.
struct SQLiteDevices: DeviceRows {
  let db: SQLiteConnection

  func find(_ keyThumbprint: String) throws(StorageError) -> StoredDevice? {
    try db.first(
      """
      SELECT guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, proof_counter, cloned_at,
        proof_window
      FROM devices WHERE key_thumbprint = ?
      """,
      .text(keyThumbprint)
    ) { row throws(StorageError) in
      var hint: LastLoginHint?
      if let method = row.optionalText(2).flatMap({ SignInMethod(rawValue: $0) }) {
        hint = LastLoginHint(method: method, accountMask: row.text(3), at: row.timestamp(4))
      }
      // Without a window nothing is known of the lower numbers, so none of them is taken.
      let seen = row.optionalInteger(7).map { UInt64(bitPattern: $0) } ?? .max
      return StoredDevice(
        guest: try row.optionalID(0), lastAccount: try row.optionalID(1), lastLogin: hint,
        counter: row.optionalInteger(5).map { ProofCounter(highest: $0, seen: seen) }, isCloned: !row.isNull(6))
    }
  }

  func lock(_ keyThumbprint: String) throws(StorageError) -> StoredDevice? { try find(keyThumbprint) }

  func all(usedBy subject: SubjectID, at now: Timestamp) throws(StorageError) -> [KnownDevice] {
    try db.all(Self.selectUsed, .id(subject), .time(now)) { row in
      KnownDevice(
        keyThumbprint: row.text(0),
        label: row.optionalText(1),
        platform: row.optionalText(2),
        osVersion: row.optionalText(3),
        appVersion: row.optionalText(4),
        firstSeenAt: row.timestamp(5),
        lastSeenAt: row.timestamp(6),
        sessions: Int(row.integer(7))
      )
    }
  }

  private static let selectUsed = """
    SELECT used.device_key, coalesce(devices.label, used.label), coalesce(devices.platform, used.platform),
      devices.os_version, devices.app_version, coalesce(devices.created_at, used.since),
      max(coalesce(devices.last_seen_at, 0), used.until), used.sessions
    FROM (
      SELECT device_key, max(label) AS label, max(platform) AS platform, min(since) AS since, max(until) AS until,
        sum(sessions) AS sessions
      FROM (
        SELECT device_key, device_label AS label, device_platform AS platform,
          coalesce(began_at, authenticated_at) AS since, rotated_at AS until, 1 AS sessions
        FROM sessions
        WHERE sub = ?1 AND ended_at IS NULL AND device_key IS NOT NULL AND idle_expires_at > ?2
        UNION ALL
        SELECT device_key, NULL, NULL, created_at, created_at, 0 FROM unlocks WHERE sub = ?1
      )
      GROUP BY device_key
    ) AS used LEFT JOIN devices ON devices.key_thumbprint = used.device_key
    ORDER BY 7 DESC, 1
    """

  func change(_ keyThumbprint: String, label: DisplayText) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET label = ? WHERE key_thumbprint = ?", .text(label.description), .text(keyThumbprint))
  }

  /// What its owner knows the device by.
  func label(of keyThumbprint: String) throws(StorageError) -> DisplayText? {
    let label = try db.first("SELECT label FROM devices WHERE key_thumbprint = ?", .text(keyThumbprint)) { row in
      row.optionalText(0)
    }
    return label?.flatMap { DisplayText($0) }
  }

  func put(
    _ device: DeviceRegistration, counter: ProofCounter?, newGuest guest: SubjectID?, at now: Timestamp
  ) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO devices (key_thumbprint, public_key_x, public_key_y, device_id, label, platform, os_version,
        app_version, reinstalled_at, proof_counter, proof_window, created_at, last_seen_at, guest_sub)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (key_thumbprint) DO UPDATE SET
        device_id = excluded.device_id,
        label = coalesce(excluded.label, label),
        platform = coalesce(excluded.platform, platform),
        os_version = coalesce(excluded.os_version, os_version),
        app_version = coalesce(excluded.app_version, app_version),
        reinstalled_at = coalesce(excluded.reinstalled_at, reinstalled_at),
        proof_counter = coalesce(excluded.proof_counter, proof_counter),
        proof_window = coalesce(excluded.proof_window, proof_window),
        last_seen_at = excluded.last_seen_at,
        guest_sub = coalesce(excluded.guest_sub, guest_sub)
      """,
      .text(device.keyThumbprint),
      .blob(device.publicKeyX),
      .blob(device.publicKeyY),
      .text(device.deviceID.description),
      .optional(device.label?.description),
      .optional(device.platform?.description),
      .optional(device.osVersion?.description),
      .optional(device.appVersion?.description),
      device.isReinstalled ? .time(now) : .null, .optional(counter?.highest),
      .optional(counter.map { Int64(bitPattern: $0.seen) }), .time(now), .time(now), .optional(guest?.bytes)
    )
  }

  func change(_ keyThumbprint: String, guest: SubjectID?) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET guest_sub = ? WHERE key_thumbprint = ?",
      .optional(guest?.bytes),
      .text(keyThumbprint)
    )
  }

  func keys(ofGuest guest: SubjectID) throws(StorageError) -> [String] {
    try db.all("SELECT key_thumbprint FROM devices WHERE guest_sub = ? ORDER BY key_thumbprint", .id(guest)) {
      $0.text(0)
    }
  }

  func removeGuest(_ guest: SubjectID) throws(StorageError) {
    try db.execute("UPDATE devices SET guest_sub = NULL WHERE guest_sub = ?", .id(guest))
  }

  func removeGuest(_ guest: SubjectID, from keyThumbprint: String) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET guest_sub = NULL WHERE key_thumbprint = ? AND guest_sub = ?",
      .text(keyThumbprint),
      .id(guest)
    )
  }

  static let removeUses = [
    "DELETE FROM devices WHERE guest_sub = ? AND last_account_sub IS NULL",
    "UPDATE devices SET guest_sub = NULL WHERE guest_sub = ?",
    """
    UPDATE devices SET last_account_sub = NULL, last_login_method = NULL, last_login_mask = NULL, last_login_at = NULL
    WHERE last_account_sub = ?
    """,
  ]

  func remove(usesOf subject: SubjectID) throws(StorageError) {
    for statement in Self.removeUses { try db.execute(statement, .id(subject)) }
  }

  func change(_ keyThumbprint: String, clonedAt time: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET cloned_at = ? WHERE key_thumbprint = ?", .time(time), .text(keyThumbprint))
  }

  func resetCounter(_ keyThumbprint: String) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET cloned_at = NULL, proof_counter = NULL, proof_window = NULL WHERE key_thumbprint = ?",
      .text(keyThumbprint))
  }

  func move(_ keyThumbprint: String, to other: String) throws(StorageError) {
    try db.execute(
      """
      UPDATE devices SET (guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, created_at) =
        (SELECT guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, created_at
          FROM devices old WHERE old.key_thumbprint = ?1)
      WHERE key_thumbprint = ?2 AND EXISTS (SELECT 1 FROM devices old WHERE old.key_thumbprint = ?1)
      """,
      .text(keyThumbprint), .text(other)
    )
    try db.execute(
      """
      UPDATE devices SET guest_sub = NULL, last_account_sub = NULL, last_login_method = NULL, last_login_mask = NULL,
        last_login_at = NULL WHERE key_thumbprint = ?
      """,
      .text(keyThumbprint)
    )
    try db.execute(
      "UPDATE merged_guests SET device_key = ?2 WHERE device_key = ?1", .text(keyThumbprint), .text(other))
  }

  func change(
    _ keyThumbprint: String, lastAccount account: SubjectID, _ hint: LastLoginHint
  ) throws(StorageError) {
    try db.execute(
      """
      UPDATE devices SET last_account_sub = ?, last_login_method = ?, last_login_mask = ?, last_login_at = ?,
        last_seen_at = ?
      WHERE key_thumbprint = ?
      """,
      .id(account),
      .text(hint.method.rawValue),
      .text(hint.accountMask),
      .time(hint.at),
      .time(hint.at),
      .text(keyThumbprint)
    )
  }
}
