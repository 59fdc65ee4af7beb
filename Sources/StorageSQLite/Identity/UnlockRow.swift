import LatchkeyModel
import Storage

/// Statements and mapping of the table `unlocks`.
enum UnlockRow {
  /// A person has a few devices, each with a key and a pattern; the list is read whole.
  static let mostPerAccount = 64

  private static let columns = """
    key_thumbprint, kind, sub, device_key, secret_hash, created_at, qr_session_id, bound_by_key, bound_by_label,
    bound_scope, proven_at, expires_at
    """

  static func find(
    _ kind: Unlock.Kind,
    _ keyThumbprint: String,
    in db: SQLiteConnection
  ) throws(StorageError) -> Unlock? {
    try db.first(
      "SELECT \(columns) FROM unlocks WHERE key_thumbprint = ? AND kind = ?",
      .text(keyThumbprint),
      .integer(kind.rawValue),
      map: map
    )
  }

  static func all(of account: SubjectID, in db: SQLiteConnection) throws(StorageError) -> [Unlock] {
    try db.all(
      "SELECT \(columns) FROM unlocks WHERE sub = ? ORDER BY created_at, kind, key_thumbprint",
      .id(account),
      map: map
    )
  }

  /// The device that a QR session bound.
  static func bound(by qrSession: String, in db: SQLiteConnection) throws(StorageError) -> Unlock? {
    try db.first("SELECT \(columns) FROM unlocks WHERE qr_session_id = ?", .text(qrSession), map: map)
  }

  static func put(_ unlock: Unlock, in db: SQLiteConnection) throws(StorageError) {
    try db.execute(
      """
      INSERT OR REPLACE INTO unlocks (\(columns), tries_left) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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
      .integer(Unlock.patternTries)
    )
  }

  /// Takes one of the tries of a pattern; nil when there is none or none are left.
  static func takeTry(_ keyThumbprint: String, in db: SQLiteConnection) throws(StorageError) -> Unlock? {
    try db.first(
      """
      UPDATE unlocks SET tries_left = tries_left - 1 WHERE key_thumbprint = ? AND kind = 2 AND tries_left > 0
      RETURNING \(columns)
      """,
      .text(keyThumbprint),
      map: map
    )
  }

  static func returnTry(_ keyThumbprint: String, in db: SQLiteConnection) throws(StorageError) {
    try db.execute(
      "UPDATE unlocks SET tries_left = tries_left + 1 WHERE key_thumbprint = ? AND kind = 2 AND tries_left < ?",
      .text(keyThumbprint),
      .integer(Unlock.patternTries)
    )
  }

  static func resetTries(_ keyThumbprint: String, in db: SQLiteConnection) throws(StorageError) {
    try db.execute(
      "UPDATE unlocks SET tries_left = ? WHERE key_thumbprint = ? AND kind = 2 AND tries_left > 0",
      .integer(Unlock.patternTries),
      .text(keyThumbprint)
    )
  }

  static func remove(_ unlock: Unlock, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try db.execute(
      "DELETE FROM unlocks WHERE key_thumbprint = ? AND kind = ? AND sub = ?",
      .text(unlock.keyThumbprint),
      .integer(unlock.kind.rawValue),
      .id(unlock.account)
    ) > 0
  }

  /// What unlocks the account on this device, which its owner no longer trusts.
  static func removeAll(
    of account: SubjectID,
    onDevice keyThumbprint: String,
    at now: Timestamp,
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) {
    let removed = try db.execute(
      "DELETE FROM unlocks WHERE sub = ? AND device_key = ?",
      .id(account),
      .text(keyThumbprint)
    )
    guard removed > 0 else { return }
    changes.notes.append(AuditNote(.credentialRemoved, at: now, subject: account, detail: "unlocks of a device"))
  }

  /// The same for every device but one.
  static func removeAll(
    of account: SubjectID,
    exceptDevice keyThumbprint: String?,
    at now: Timestamp,
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) {
    let removed = try db.execute(
      "DELETE FROM unlocks WHERE sub = ? AND device_key IS NOT ?",
      .id(account),
      .optional(keyThumbprint)
    )
    guard removed > 0 else { return }
    changes.notes.append(AuditNote(.credentialRemoved, at: now, subject: account, detail: "unlocks of other devices"))
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
