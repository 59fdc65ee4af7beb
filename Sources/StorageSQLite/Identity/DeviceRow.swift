import LatchkeyModel
import Storage

/// Statements and mapping of the table `devices`.
struct DeviceRow {
  var guest: SubjectID?
  var lastAccount: SubjectID?
  var lastLogin: LastLoginHint?
  /// The numbers that the key has signed its proofs with; nil for apps that count nothing.
  var counter: ProofCounter?
  var isCloned = false

  static func find(_ keyThumbprint: String, in db: SQLiteConnection) throws(StorageError) -> DeviceRow? {
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
      return DeviceRow(
        guest: try row.optionalID(0), lastAccount: try row.optionalID(1), lastLogin: hint,
        counter: row.optionalInteger(5).map { ProofCounter(highest: $0, seen: seen) }, isCloned: !row.isNull(6))
    }
  }

  /// What its owner knows the device by.
  static func label(of keyThumbprint: String, in db: SQLiteConnection) throws(StorageError) -> DisplayText? {
    let label = try db.first("SELECT label FROM devices WHERE key_thumbprint = ?", .text(keyThumbprint)) { row in
      row.optionalText(0)
    }
    return label?.flatMap { DisplayText($0) }
  }

  /// Writes what the device said of itself, whether it is new or known.
  ///
  /// - Parameter counter: nil when the app counts nothing, or nothing is known of what it counts.
  static func register(
    _ device: DeviceRegistration,
    counter: ProofCounter? = nil,
    at now: Timestamp,
    in db: SQLiteConnection
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

  static func setGuest(
    _ guest: SubjectID?,
    of keyThumbprint: String,
    in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET guest_sub = ? WHERE key_thumbprint = ?",
      .optional(guest?.bytes),
      .text(keyThumbprint)
    )
  }

  /// The guest is one no longer: its device gets another when it asks.
  static func releaseGuest(_ guest: SubjectID, in db: SQLiteConnection) throws(StorageError) {
    try db.execute("UPDATE devices SET guest_sub = NULL WHERE guest_sub = ?", .id(guest))
  }

  /// This device's guest is another's from now on.
  static func releaseGuest(
    _ guest: SubjectID,
    from keyThumbprint: String,
    in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET guest_sub = NULL WHERE key_thumbprint = ? AND guest_sub = ?",
      .text(keyThumbprint),
      .id(guest)
    )
  }

  /// From now on two devices are known to hold the key.
  static func setCloned(
    _ time: Timestamp, _ keyThumbprint: String, in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET cloned_at = ? WHERE key_thumbprint = ?", .time(time), .text(keyThumbprint))
  }

  /// Whoever goes on with the key begins to count anew: it may be the one who was behind.
  static func setNotCloned(_ keyThumbprint: String, in db: SQLiteConnection) throws(StorageError) {
    try db.execute(
      "UPDATE devices SET cloned_at = NULL, proof_counter = NULL, proof_window = NULL WHERE key_thumbprint = ?",
      .text(keyThumbprint))
  }

  /// Who has used a device last, as guest and as account, and whoever else is named.
  static func users(
    of keyThumbprint: String, and other: SubjectID? = nil, in db: SQLiteConnection
  ) throws(StorageError) -> Set<SubjectID> {
    let device = try find(keyThumbprint, in: db)
    return Set([device?.guest, device?.lastAccount, other].compactMap { $0 })
  }

  static let moveUnlocks = "UPDATE unlocks SET device_key = ?2 WHERE device_key = ?1 AND key_thumbprint <> ?1"

  /// What is known of a device is known under its new key from now on; the old key is a stranger's.
  ///
  /// - Parameter keepsBinding: whether a device that is bound to an account stays bound, by its new key.
  static func rekey(
    from oldKey: String, to newKey: String, keepsBinding: Bool, in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      """
      UPDATE devices SET (guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, created_at) =
        (SELECT guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, created_at
          FROM devices old WHERE old.key_thumbprint = ?1)
      WHERE key_thumbprint = ?2 AND EXISTS (SELECT 1 FROM devices old WHERE old.key_thumbprint = ?1)
      """,
      .text(oldKey), .text(newKey)
    )
    // The device's ways to unlock go with it; one that the key itself is goes with the key, unless it is what binds
    // the device.
    if keepsBinding {
      try db.execute(
        "UPDATE unlocks SET key_thumbprint = ?2 WHERE key_thumbprint = ?1 AND qr_session_id IS NOT NULL",
        .text(oldKey), .text(newKey))
    }
    try db.execute(
      moveUnlocks, .text(oldKey), .text(newKey))
    try db.execute("DELETE FROM unlocks WHERE key_thumbprint = ?", .text(oldKey))
    try db.execute("UPDATE merged_guests SET device_key = ?2 WHERE device_key = ?1", .text(oldKey), .text(newKey))
    try db.execute(
      """
      UPDATE devices SET guest_sub = NULL, last_account_sub = NULL, last_login_method = NULL, last_login_mask = NULL,
        last_login_at = NULL WHERE key_thumbprint = ?
      """,
      .text(oldKey)
    )
  }

  static func noteLogin(
    _ hint: LastLoginHint,
    account: SubjectID,
    of keyThumbprint: String,
    in db: SQLiteConnection
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
