import LatchkeyModel
import Storage

/// The table `devices`.
struct PostgreSQLDevices: DeviceRows {
  let db: PostgreSQLConnection

  private static let select = """
    SELECT guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, proof_counter, cloned_at,
      proof_window
    FROM devices WHERE key_thumbprint = $1
    """

  func find(_ keyThumbprint: String) async throws(StorageError) -> StoredDevice? {
    try await db.first(Self.select, .text(keyThumbprint), map: Self.map)
  }

  func lock(_ keyThumbprint: String) async throws(StorageError) -> StoredDevice? {
    try await db.lock("devices", .text(keyThumbprint))
    return try await db.first("\(Self.select) FOR UPDATE", .text(keyThumbprint), map: Self.map)
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> StoredDevice {
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

  func all(usedBy subject: SubjectID, at now: Timestamp) async throws(StorageError) -> [KnownDevice] {
    try await db.all(Self.selectUsed, .id(subject), .time(now)) { row in
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
      greatest(coalesce(devices.last_seen_at, 0), used.until), used.sessions
    FROM (
      SELECT device_key, max(label) AS label, max(platform) AS platform, min(since) AS since, max(until) AS until,
        sum(sessions)::bigint AS sessions
      FROM (
        SELECT device_key, device_label AS label, device_platform AS platform,
          began_at AS since, rotated_at AS until, 1::bigint AS sessions
        FROM sessions
        WHERE sub = $1 AND ended_at IS NULL AND device_key IS NOT NULL AND idle_expires_at > $2
        UNION ALL
        SELECT device_key, NULL, NULL, created_at, created_at, 0 FROM unlocks WHERE sub = $1
      ) AS uses
      GROUP BY device_key
    ) AS used LEFT JOIN devices ON devices.key_thumbprint = used.device_key
    ORDER BY 7 DESC, 1
    """

  func change(_ keyThumbprint: String, label: DisplayText) async throws(StorageError) {
    try await db.execute(
      "UPDATE devices SET label = $1 WHERE key_thumbprint = $2", .text(label.description), .text(keyThumbprint))
  }

  /// What its owner knows the device by.
  func label(of keyThumbprint: String) async throws(StorageError) -> DisplayText? {
    let label = try await db.first("SELECT label FROM devices WHERE key_thumbprint = $1", .text(keyThumbprint)) { row in
      row.optionalText(0)
    }
    return label?.flatMap { DisplayText($0) }
  }

  private static let put = PostgreSQLInsert(
    into: "devices",
    [
      "key_thumbprint": .text, "public_key_x": .bytes, "public_key_y": .bytes, "device_id": .text, "label": .text,
      "platform": .text, "os_version": .text, "app_version": .text, "reinstalled_at": .integer,
      "proof_counter": .integer, "proof_window": .integer, "created_at": .integer, "last_seen_at": .integer,
      "guest_sub": .id,
    ],
    orElse: """
      ON CONFLICT (key_thumbprint) DO UPDATE SET
        device_id = excluded.device_id,
        label = coalesce(excluded.label, devices.label),
        platform = coalesce(excluded.platform, devices.platform),
        os_version = coalesce(excluded.os_version, devices.os_version),
        app_version = coalesce(excluded.app_version, devices.app_version),
        reinstalled_at = coalesce(excluded.reinstalled_at, devices.reinstalled_at),
        proof_counter = coalesce(excluded.proof_counter, devices.proof_counter),
        proof_window = coalesce(excluded.proof_window, devices.proof_window),
        last_seen_at = excluded.last_seen_at,
        guest_sub = coalesce(excluded.guest_sub, devices.guest_sub)
      """)

  func put(
    _ device: DeviceRegistration, counter: ProofCounter?, newGuest guest: SubjectID?, at now: Timestamp
  ) async throws(StorageError) {
    let row: [PostgreSQLValue] = [
      .text(device.keyThumbprint),
      .bytes(device.publicKeyX),
      .bytes(device.publicKeyY),
      .text(device.deviceID.description),
      .optional(device.label?.description),
      .optional(device.platform?.description),
      .optional(device.osVersion?.description),
      .optional(device.appVersion?.description),
      device.isReinstalled ? .time(now) : .null,
      .optional(counter?.highest),
      .optional(counter.map { Int64(bitPattern: $0.seen) }),
      .time(now),
      .time(now),
      .optional(guest?.bytes),
    ]
    try await db.add([row], by: Self.put)
  }

  func change(_ keyThumbprint: String, guest: SubjectID?) async throws(StorageError) {
    try await db.execute(
      "UPDATE devices SET guest_sub = $1 WHERE key_thumbprint = $2",
      .optional(guest?.bytes),
      .text(keyThumbprint)
    )
  }

  func keys(ofGuest guest: SubjectID) async throws(StorageError) -> [String] {
    try await db.all("SELECT key_thumbprint FROM devices WHERE guest_sub = $1 ORDER BY key_thumbprint", .id(guest)) {
      $0.text(0)
    }
  }

  func removeGuest(_ guest: SubjectID) async throws(StorageError) {
    try await db.execute("UPDATE devices SET guest_sub = NULL WHERE guest_sub = $1", .id(guest))
  }

  func removeGuest(_ guest: SubjectID, from keyThumbprint: String) async throws(StorageError) {
    try await db.execute(
      "UPDATE devices SET guest_sub = NULL WHERE key_thumbprint = $1 AND guest_sub = $2",
      .text(keyThumbprint),
      .id(guest)
    )
  }

  static let removeUses = [
    "DELETE FROM devices WHERE guest_sub = $1 AND last_account_sub IS NULL",
    "UPDATE devices SET guest_sub = NULL WHERE guest_sub = $1",
    """
    UPDATE devices SET last_account_sub = NULL, last_login_method = NULL, last_login_mask = NULL, last_login_at = NULL
    WHERE last_account_sub = $1
    """,
  ]

  func remove(usesOf subject: SubjectID) async throws(StorageError) {
    for statement in Self.removeUses { try await db.execute(statement, .id(subject)) }
  }

  func change(_ keyThumbprint: String, clonedAt time: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE devices SET cloned_at = $1 WHERE key_thumbprint = $2", .time(time), .text(keyThumbprint))
  }

  func resetCounter(_ keyThumbprint: String) async throws(StorageError) {
    try await db.execute(
      "UPDATE devices SET cloned_at = NULL, proof_counter = NULL, proof_window = NULL WHERE key_thumbprint = $1",
      .text(keyThumbprint))
  }

  func move(_ keyThumbprint: String, to other: String) async throws(StorageError) {
    try await db.execute(
      """
      UPDATE devices SET (guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, created_at) =
        (SELECT guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, created_at
          FROM devices old WHERE old.key_thumbprint = $1)
      WHERE key_thumbprint = $2 AND EXISTS (SELECT 1 FROM devices old WHERE old.key_thumbprint = $1)
      """,
      .text(keyThumbprint), .text(other)
    )
    try await db.execute(
      """
      UPDATE devices SET guest_sub = NULL, last_account_sub = NULL, last_login_method = NULL, last_login_mask = NULL,
        last_login_at = NULL WHERE key_thumbprint = $1
      """,
      .text(keyThumbprint)
    )
    try await db.execute(
      "UPDATE merged_guests SET device_key = $2 WHERE device_key = $1", .text(keyThumbprint), .text(other))
  }

  func change(
    _ keyThumbprint: String, lastAccount account: SubjectID, _ hint: LastLoginHint
  ) async throws(StorageError) {
    try await db.execute(
      """
      UPDATE devices SET last_account_sub = $1, last_login_method = $2, last_login_mask = $3, last_login_at = $4,
        last_seen_at = $5
      WHERE key_thumbprint = $6
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
