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

  /// What its owner knows the device by.
  func label(of keyThumbprint: String) throws(StorageError) -> DisplayText? {
    let label = try db.first("SELECT label FROM devices WHERE key_thumbprint = ?", .text(keyThumbprint)) { row in
      row.optionalText(0)
    }
    return label?.flatMap { DisplayText($0) }
  }

  func put(
    _ device: DeviceRegistration, counter: ProofCounter? = nil, at now: Timestamp
  ) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO devices (key_thumbprint, public_key_x, public_key_y, device_id, label, platform, os_version,
        app_version, reinstalled_at, proof_counter, proof_window, created_at, last_seen_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (key_thumbprint) DO UPDATE SET
        device_id = excluded.device_id,
        label = coalesce(excluded.label, label),
        platform = coalesce(excluded.platform, platform),
        os_version = coalesce(excluded.os_version, os_version),
        app_version = coalesce(excluded.app_version, app_version),
        reinstalled_at = coalesce(excluded.reinstalled_at, reinstalled_at),
        proof_counter = coalesce(excluded.proof_counter, proof_counter),
        proof_window = coalesce(excluded.proof_window, proof_window),
        last_seen_at = excluded.last_seen_at
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
      .optional(counter.map { Int64(bitPattern: $0.seen) }), .time(now), .time(now)
    )
  }

  func change(_ keyThumbprint: String, guest: SubjectID?) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET guest_sub = ? WHERE key_thumbprint = ?",
      .optional(guest?.bytes),
      .text(keyThumbprint)
    )
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
