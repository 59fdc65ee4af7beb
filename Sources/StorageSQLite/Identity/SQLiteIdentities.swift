import LatchkeyModel
import Storage

/// The tables `identities` and `passwords`.
struct SQLiteIdentities: IdentityRows {
  let db: SQLiteConnection

  func all(of account: SubjectID) throws(StorageError) -> [Identity] {
    try db.all(
      "SELECT kind, value, mask, created_at, verified_at FROM identities WHERE sub = ? ORDER BY created_at, kind, value",
      .id(account)
    ) { row throws(StorageError) in try Self.map(row) }
  }

  func find(
    _ identifier: AccountIdentifier
  ) throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    try db.first(
      "SELECT kind, value, mask, created_at, verified_at, sub FROM identities WHERE kind = ? AND value = ?",
      .integer(identifier.kind.rawValue), .text(identifier.canonical)
    ) { row throws(StorageError) in (try Self.map(row), try row.id(5)) }
  }

  func lock(_ identifier: AccountIdentifier) throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    try find(identifier)
  }

  func first(of account: SubjectID) throws(StorageError) -> Identity? {
    try db.first(
      """
      SELECT kind, value, mask, created_at, verified_at FROM identities WHERE sub = ?
      ORDER BY created_at, kind, value LIMIT 1
      """,
      .id(account), map: Self.map)
  }

  func account(for identifier: AccountIdentifier) throws(StorageError) -> PasswordAccount? {
    try db.first(
      """
      SELECT identities.sub, coalesce(identities.secret_hash, passwords.hash), identities.verified_at
      FROM identities LEFT JOIN passwords ON passwords.sub = identities.sub
      WHERE identities.kind = ? AND identities.value = ?
      """,
      .integer(identifier.kind.rawValue), .text(identifier.canonical)
    ) { row throws(StorageError) in
      PasswordAccount(
        subject: try row.id(0), passwordHash: row.optionalText(1),
        isProven: !identifier.isAddress || row.optionalInteger(2) != nil)
    }
  }

  func insert(_ identity: Identity, secretHash: String?, of account: SubjectID) throws(StorageError) -> Bool {
    try db.execute(
      """
      INSERT INTO identities (kind, value, sub, mask, created_at, secret_hash, verified_at) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (kind, value) DO NOTHING
      """,
      .integer(identity.kind.rawValue), .text(identity.value), .id(account), .text(identity.mask),
      .time(identity.linkedAt), .optional(secretHash), .optional(identity.verifiedAt?.millisecondsSinceEpoch)
    ) == 1
  }

  func remove(
    _ kind: AccountIdentifier.Kind, _ value: String, of account: SubjectID
  ) throws(StorageError) -> Bool {
    try db.execute(
      "DELETE FROM identities WHERE kind = ? AND value = ? AND sub = ?",
      .integer(kind.rawValue), .text(value), .id(account)) > 0
  }

  static let removeAll = "DELETE FROM identities WHERE sub = ?"

  func remove(of account: SubjectID) throws(StorageError) { try db.execute(Self.removeAll, .id(account)) }

  func change(_ identifier: AccountIdentifier, verifiedAt time: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE identities SET verified_at = ? WHERE kind = ? AND value = ?",
      .time(time), .integer(identifier.kind.rawValue), .text(identifier.canonical))
  }

  func findPassword(of account: SubjectID) throws(StorageError) -> String? {
    try db.first("SELECT hash FROM passwords WHERE sub = ?", .id(account)) { $0.text(0) }
  }

  func lockPassword(of account: SubjectID) throws(StorageError) -> String? { try findPassword(of: account) }

  func putPassword(_ hash: String, of account: SubjectID, at now: Timestamp) throws(StorageError) {
    try db.execute(
      "INSERT OR REPLACE INTO passwords (sub, hash, changed_at) VALUES (?, ?, ?)",
      .id(account), .text(hash), .time(now))
  }

  static let removePassword = "DELETE FROM passwords WHERE sub = ?"

  func removePassword(of account: SubjectID) throws(StorageError) { try db.execute(Self.removePassword, .id(account)) }

  func change(_ identifier: AccountIdentifier, secretHash hash: String) throws(StorageError) {
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
