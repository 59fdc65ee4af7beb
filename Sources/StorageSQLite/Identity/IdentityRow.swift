import LatchkeyModel
import Storage

/// Statements and mapping of the table `identities`.
enum IdentityRow {
  /// A person has a few addresses, numbers and names; the list is read whole.
  static let mostPerAccount = 32

  static func all(of account: SubjectID, in db: SQLiteConnection) throws(StorageError) -> [Identity] {
    try db.all(
      "SELECT kind, value, mask, created_at, verified_at FROM identities WHERE sub = ? ORDER BY created_at, kind, value",
      .id(account)
    ) { row throws(StorageError) in try map(row) }
  }

  static func find(
    _ identifier: AccountIdentifier, in db: SQLiteConnection
  ) throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    try db.first(
      "SELECT kind, value, mask, created_at, verified_at, sub FROM identities WHERE kind = ? AND value = ?",
      .integer(identifier.kind.rawValue), .text(identifier.canonical)
    ) { row throws(StorageError) in (try map(row), try row.id(5)) }
  }

  /// The account as its owner recognises it: by what was linked first.
  static func mask(of account: SubjectID, in db: SQLiteConnection) throws(StorageError) -> String {
    try db.first(
      "SELECT mask FROM identities WHERE sub = ? ORDER BY created_at, kind, value LIMIT 1", .id(account)
    ) { $0.text(0) } ?? ""
  }

  /// False when the identifier leads to an account already.
  ///
  /// - Parameter isVerified: whether a code showed that an address is its owner's.
  static func insert(
    _ identifier: AccountIdentifier, secretHash: String?, isVerified: Bool, of subject: SubjectID, at now: Timestamp,
    in db: SQLiteConnection
  ) throws(StorageError) -> Bool {
    try db.execute(
      """
      INSERT INTO identities (kind, value, sub, mask, created_at, secret_hash, verified_at) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (kind, value) DO NOTHING
      """,
      .integer(identifier.kind.rawValue), .text(identifier.canonical), .id(subject), .text(identifier.mask),
      .time(now), .optional(secretHash), isVerified ? .time(now) : .null
    ) == 1
  }

  /// A code showed that the address is its account's.
  static func verify(
    _ identifier: AccountIdentifier, of account: SubjectID, at now: Timestamp, in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) {
    let verified = try db.execute(
      "UPDATE identities SET verified_at = ? WHERE kind = ? AND value = ? AND sub = ? AND verified_at IS NULL",
      .time(now), .integer(identifier.kind.rawValue), .text(identifier.canonical), .id(account))
    guard verified > 0 else { return }
    changes.notes.append(AuditNote(.identityVerified, at: now, subject: account, detail: identifier.mask))
  }

  /// Takes an address that nobody had proven from the account that said it: its owner came.
  static func release(
    _ identifier: AccountIdentifier, from account: SubjectID, at now: Timestamp, in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) {
    try db.execute(
      "DELETE FROM identities WHERE kind = ? AND value = ? AND sub = ? AND verified_at IS NULL",
      .integer(identifier.kind.rawValue), .text(identifier.canonical), .id(account))
    try LineageRow.forget(.identity(identifier.kind, value: identifier.canonical), in: db)
    changes.notes.append(AuditNote(.identityReleased, at: now, subject: account, detail: identifier.mask))
  }

  static func replaceSecret(
    of identifier: AccountIdentifier, with hash: String, in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      "UPDATE identities SET secret_hash = ? WHERE kind = ? AND value = ?",
      .text(hash), .integer(identifier.kind.rawValue), .text(identifier.canonical))
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> Identity {
    guard let kind = AccountIdentifier.Kind(rawValue: row.integer(0)) else {
      throw StorageError(.corrupt, operation: "read an identity", detail: "unknown kind")
    }
    return Identity(
      kind: kind, value: row.text(1), mask: row.text(2), linkedAt: row.timestamp(3),
      verifiedAt: row.optionalInteger(4).map { Timestamp(millisecondsSinceEpoch: $0) })
  }
}
