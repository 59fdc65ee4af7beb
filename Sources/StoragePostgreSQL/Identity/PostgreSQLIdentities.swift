import LatchkeyModel
import Storage

/// The tables `identities` and `passwords`.
struct PostgreSQLIdentities: IdentityRows {
  let db: PostgreSQLConnection

  func all(of account: SubjectID) async throws(StorageError) -> [Identity] {
    try await db.all(
      "SELECT kind, value, mask, created_at, verified_at FROM identities WHERE sub = $1 ORDER BY created_at, kind, value",
      .id(account)
    ) { row throws(StorageError) in try Self.map(row) }
  }

  func find(
    _ identifier: AccountIdentifier
  ) async throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    try await find(Self.selectOne, identifier)
  }

  private static let selectOne = """
    SELECT kind, value, mask, created_at, verified_at, sub FROM identities WHERE kind = $1 AND value = $2
    """

  private func find(
    _ sql: String, _ identifier: AccountIdentifier
  ) async throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    try await db.first(sql, .integer(identifier.kind.rawValue), .text(identifier.canonical)) {
      row throws(StorageError) in (try Self.map(row), try row.id(5))
    }
  }

  func lock(_ identifier: AccountIdentifier) async throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    try await db.lock("identities", .integer(identifier.kind.rawValue), .text(identifier.canonical))
    return try await find("\(Self.selectOne) FOR UPDATE", identifier)
  }

  func first(of account: SubjectID) async throws(StorageError) -> Identity? {
    try await db.first(
      """
      SELECT kind, value, mask, created_at, verified_at FROM identities WHERE sub = $1
      ORDER BY created_at, kind, value LIMIT 1
      """,
      .id(account), map: Self.map)
  }

  func account(for identifier: AccountIdentifier) async throws(StorageError) -> PasswordAccount? {
    try await db.first(
      """
      SELECT identities.sub, coalesce(identities.secret_hash, passwords.hash), identities.verified_at
      FROM identities LEFT JOIN passwords ON passwords.sub = identities.sub
      WHERE identities.kind = $1 AND identities.value = $2
      """,
      .integer(identifier.kind.rawValue), .text(identifier.canonical)
    ) { row throws(StorageError) in
      PasswordAccount(
        subject: try row.id(0), passwordHash: row.optionalText(1),
        isProven: !identifier.isAddress || row.optionalInteger(2) != nil)
    }
  }

  func insert(_ identity: Identity, secretHash: String?, of account: SubjectID) async throws(StorageError) -> Bool {
    try await db.change(
      """
      INSERT INTO identities (kind, value, sub, mask, created_at, secret_hash, verified_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
      ON CONFLICT (kind, value) DO NOTHING
      """,
      .integer(identity.kind.rawValue), .text(identity.value), .id(account), .text(identity.mask),
      .time(identity.linkedAt), .optional(secretHash), .optional(identity.verifiedAt?.millisecondsSinceEpoch)
    ) == 1
  }

  func remove(
    _ kind: AccountIdentifier.Kind, _ value: String, of account: SubjectID
  ) async throws(StorageError) -> Bool {
    try await db.change(
      "DELETE FROM identities WHERE kind = $1 AND value = $2 AND sub = $3",
      .integer(kind.rawValue), .text(value), .id(account)) > 0
  }

  static let removeAll = "DELETE FROM identities WHERE sub = $1"

  func remove(of account: SubjectID) async throws(StorageError) { try await db.execute(Self.removeAll, .id(account)) }

  func change(_ identifier: AccountIdentifier, verifiedAt time: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE identities SET verified_at = $1 WHERE kind = $2 AND value = $3",
      .time(time), .integer(identifier.kind.rawValue), .text(identifier.canonical))
  }

  func findPassword(of account: SubjectID) async throws(StorageError) -> String? {
    try await db.first("SELECT hash FROM passwords WHERE sub = $1", .id(account)) { $0.text(0) }
  }

  func lockPassword(of account: SubjectID) async throws(StorageError) -> String? {
    try await db.lock("passwords", .id(account))
    return try await db.first("SELECT hash FROM passwords WHERE sub = $1 FOR UPDATE", .id(account)) { $0.text(0) }
  }

  func putPassword(_ hash: String, of account: SubjectID, at now: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO passwords (sub, hash, changed_at) VALUES ($1, $2, $3)
      ON CONFLICT (sub) DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at
      """,
      .id(account), .text(hash), .time(now))
  }

  static let removePassword = "DELETE FROM passwords WHERE sub = $1"

  func removePassword(of account: SubjectID) async throws(StorageError) {
    try await db.execute(Self.removePassword, .id(account))
  }

  func change(_ identifier: AccountIdentifier, secretHash hash: String) async throws(StorageError) {
    try await db.execute(
      "UPDATE identities SET secret_hash = $1 WHERE kind = $2 AND value = $3",
      .text(hash), .integer(identifier.kind.rawValue), .text(identifier.canonical))
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> Identity {
    guard let kind = AccountIdentifier.Kind(rawValue: row.integer(0)) else {
      throw StorageError(.corrupt, operation: "read an identity", detail: "unknown kind")
    }
    return Identity(
      kind: kind, value: row.text(1), mask: row.text(2), linkedAt: row.timestamp(3),
      verifiedAt: row.optionalInteger(4).map { Timestamp(millisecondsSinceEpoch: $0) })
  }
}
