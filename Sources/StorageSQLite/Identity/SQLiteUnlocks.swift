import LatchkeyModel
import Storage

/// The table `unlocks`.
struct SQLiteUnlocks: UnlockRows {
  let db: SQLiteConnection

  private static let columns = """
    key_thumbprint, kind, sub, device_key, secret_hash, created_at, qr_session_id, bound_by_key, bound_by_label,
    bound_scope, proven_at, expires_at
    """

  func find(_ kind: Unlock.Kind, _ keyThumbprint: String) throws(StorageError) -> Unlock? {
    try db.first(
      "SELECT \(Self.columns) FROM unlocks WHERE key_thumbprint = ? AND kind = ?",
      .text(keyThumbprint),
      .integer(kind.rawValue),
      map: Self.map
    )
  }

  func lock(
    _ kind: Unlock.Kind, _ keyThumbprint: String
  ) throws(StorageError) -> (unlock: Unlock, triesLeft: Int64)? {
    try db.first(
      "SELECT \(Self.columns), tries_left FROM unlocks WHERE key_thumbprint = ? AND kind = ?",
      .text(keyThumbprint), .integer(kind.rawValue)
    ) { row throws(StorageError) in (try Self.map(row), row.integer(12)) }
  }

  func all(of account: SubjectID) throws(StorageError) -> [Unlock] {
    try db.all(
      "SELECT \(Self.columns) FROM unlocks WHERE sub = ? ORDER BY created_at, kind, key_thumbprint",
      .id(account),
      map: Self.map
    )
  }

  func bound(by qrSession: String) throws(StorageError) -> Unlock? {
    try db.first("SELECT \(Self.columns) FROM unlocks WHERE qr_session_id = ?", .text(qrSession), map: Self.map)
  }

  func put(_ unlock: Unlock, triesLeft: Int64) throws(StorageError) {
    try db.execute(
      """
      INSERT OR REPLACE INTO unlocks (\(Self.columns), tries_left) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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

  func change(_ kind: Unlock.Kind, _ keyThumbprint: String, triesLeft: Int64) throws(StorageError) {
    try db.execute(
      "UPDATE unlocks SET tries_left = ? WHERE key_thumbprint = ? AND kind = ?",
      .integer(triesLeft), .text(keyThumbprint), .integer(kind.rawValue))
  }

  func remove(
    _ kind: Unlock.Kind, _ keyThumbprint: String, of account: SubjectID
  ) throws(StorageError) -> Bool {
    try db.execute(
      "DELETE FROM unlocks WHERE key_thumbprint = ? AND kind = ? AND sub = ?",
      .text(keyThumbprint), .integer(kind.rawValue), .id(account)
    ) > 0
  }

  func remove(of account: SubjectID, onDevice keyThumbprint: String) throws(StorageError) -> Int {
    try db.execute("DELETE FROM unlocks WHERE sub = ? AND device_key = ?", .id(account), .text(keyThumbprint))
  }

  static let removeElsewhere = "DELETE FROM unlocks WHERE sub = ? AND device_key IS NOT ?"

  func remove(of account: SubjectID, exceptDevice keyThumbprint: String?) throws(StorageError) -> Int {
    try db.execute(Self.removeElsewhere, .id(account), .optional(keyThumbprint))
  }

  func changeKey(ofBinding keyThumbprint: String, to other: String) throws(StorageError) {
    try db.execute(
      "UPDATE unlocks SET key_thumbprint = ?2 WHERE key_thumbprint = ?1 AND qr_session_id IS NOT NULL",
      .text(keyThumbprint), .text(other))
  }

  static let move = "UPDATE unlocks SET device_key = ?2 WHERE device_key = ?1 AND key_thumbprint <> ?1"

  func changeDevice(_ keyThumbprint: String, to other: String) throws(StorageError) {
    try db.execute(Self.move, .text(keyThumbprint), .text(other))
  }

  func remove(ofKey keyThumbprint: String) throws(StorageError) {
    try db.execute("DELETE FROM unlocks WHERE key_thumbprint = ?", .text(keyThumbprint))
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> Unlock {
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
