import LatchkeyModel
import Storage

/// The table `unlocks`.
struct PostgreSQLUnlocks: UnlockRows {
  let db: PostgreSQLConnection

  private static let columns = """
    key_thumbprint, kind, sub, device_key, secret_hash, created_at, qr_session_id, bound_by_key, bound_by_label,
    bound_scope, proven_at, expires_at
    """

  func find(_ kind: Unlock.Kind, _ keyThumbprint: String) async throws(StorageError) -> Unlock? {
    try await db.first(
      "SELECT \(Self.columns) FROM unlocks WHERE key_thumbprint = $1 AND kind = $2",
      .text(keyThumbprint),
      .integer(kind.rawValue),
      map: Self.map
    )
  }

  func lock(
    _ kind: Unlock.Kind, _ keyThumbprint: String
  ) async throws(StorageError) -> (unlock: Unlock, triesLeft: Int64)? {
    try await db.lock("unlocks", .integer(kind.rawValue), .text(keyThumbprint))
    return try await db.first(
      "SELECT \(Self.columns), tries_left FROM unlocks WHERE key_thumbprint = $1 AND kind = $2 FOR UPDATE",
      .text(keyThumbprint), .integer(kind.rawValue)
    ) { row throws(StorageError) in (try Self.map(row), row.integer(12)) }
  }

  func all(of account: SubjectID) async throws(StorageError) -> [Unlock] {
    try await db.all(
      "SELECT \(Self.columns) FROM unlocks WHERE sub = $1 ORDER BY created_at, kind, key_thumbprint",
      .id(account),
      map: Self.map
    )
  }

  func bound(by qrSession: String) async throws(StorageError) -> Unlock? {
    try await db.first("SELECT \(Self.columns) FROM unlocks WHERE qr_session_id = $1", .text(qrSession), map: Self.map)
  }

  func put(_ unlock: Unlock, triesLeft: Int64) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO unlocks (\(Self.columns), tries_left)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
      ON CONFLICT (key_thumbprint, kind) DO UPDATE SET sub = excluded.sub, device_key = excluded.device_key,
        secret_hash = excluded.secret_hash, created_at = excluded.created_at, qr_session_id = excluded.qr_session_id,
        bound_by_key = excluded.bound_by_key, bound_by_label = excluded.bound_by_label,
        bound_scope = excluded.bound_scope, proven_at = excluded.proven_at, expires_at = excluded.expires_at,
        tries_left = excluded.tries_left
      """,
      .text(unlock.keyThumbprint),
      .integer(unlock.kind.rawValue),
      .id(unlock.account),
      .text(unlock.deviceKey),
      .optional(unlock.secretHash),
      .time(unlock.enrolledAt),
      .optional(unlock.binding?.qrSession),
      .optional(unlock.binding?.confirmedBy.keyThumbprint),
      .optional(unlock.binding?.confirmedBy.label?.description),
      .optional(unlock.binding?.scope.description),
      .optional(unlock.binding?.provenAt?.millisecondsSinceEpoch),
      .optional(unlock.binding?.expiry?.millisecondsSinceEpoch),
      .integer(triesLeft)
    )
  }

  func change(_ kind: Unlock.Kind, _ keyThumbprint: String, triesLeft: Int64) async throws(StorageError) {
    try await db.execute(
      "UPDATE unlocks SET tries_left = $1 WHERE key_thumbprint = $2 AND kind = $3",
      .integer(triesLeft), .text(keyThumbprint), .integer(kind.rawValue))
  }

  func remove(
    _ kind: Unlock.Kind, _ keyThumbprint: String, of account: SubjectID
  ) async throws(StorageError) -> Bool {
    try await db.change(
      "DELETE FROM unlocks WHERE key_thumbprint = $1 AND kind = $2 AND sub = $3",
      .text(keyThumbprint), .integer(kind.rawValue), .id(account)
    ) > 0
  }

  func remove(of account: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Int {
    try await db.change("DELETE FROM unlocks WHERE sub = $1 AND device_key = $2", .id(account), .text(keyThumbprint))
  }

  static let removeElsewhere = "DELETE FROM unlocks WHERE sub = $1 AND device_key IS DISTINCT FROM $2"

  func remove(of account: SubjectID, exceptDevice keyThumbprint: String?) async throws(StorageError) -> Int {
    try await db.change(Self.removeElsewhere, .id(account), .optional(keyThumbprint))
  }

  func changeKey(ofBinding keyThumbprint: String, to other: String) async throws(StorageError) {
    try await db.execute(
      "UPDATE unlocks SET key_thumbprint = $2 WHERE key_thumbprint = $1 AND qr_session_id IS NOT NULL",
      .text(keyThumbprint), .text(other))
  }

  static let move = "UPDATE unlocks SET device_key = $2 WHERE device_key = $1 AND key_thumbprint <> $1"

  func changeDevice(_ keyThumbprint: String, to other: String) async throws(StorageError) {
    try await db.execute(Self.move, .text(keyThumbprint), .text(other))
  }

  func remove(ofKey keyThumbprint: String) async throws(StorageError) {
    try await db.execute("DELETE FROM unlocks WHERE key_thumbprint = $1", .text(keyThumbprint))
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> Unlock {
    guard let kind = Unlock.Kind(rawValue: row.integer(1)) else {
      throw StorageError(.corrupt, operation: "read an unlock", detail: "unknown kind")
    }
    let enrolledAt = row.timestamp(5)
    var binding: DeviceBinding?
    if let qrSession = row.optionalText(6) {
      let confirmedBy = Session.Device(
        keyThumbprint: row.optionalText(7), label: row.optionalText(8).flatMap { DisplayText($0) })
      binding = DeviceBinding(
        boundAt: enrolledAt, qrSession: qrSession, confirmedBy: confirmedBy, scope: try row.parsed(9),
        provenAt: row.optionalInteger(10).map { Timestamp(millisecondsSinceEpoch: $0) },
        expiry: row.optionalInteger(11).map { Timestamp(millisecondsSinceEpoch: $0) })
    }
    return Unlock(
      kind: kind,
      keyThumbprint: row.text(0),
      account: try row.id(2),
      deviceKey: row.text(3),
      secretHash: row.optionalText(4),
      enrolledAt: enrolledAt,
      binding: binding
    )
  }
}
