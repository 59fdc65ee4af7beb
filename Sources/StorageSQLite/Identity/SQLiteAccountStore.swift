import LatchkeyModel
import Storage

/// Accounts in SQLite.
package struct SQLiteAccountStore: AccountStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func account(for identifier: AccountIdentifier) async throws(StorageError) -> PasswordAccount? {
    try await database.read { db throws(StorageError) in try db.identities.account(for: identifier) }
  }

  package func subject(_ id: SubjectID) async throws(StorageError) -> Subject? {
    try await database.read { db throws(StorageError) in try db.subjects.find(id) }
  }

  package func replaceSecretHash(
    of identifier: AccountIdentifier, from old: String, to new: String, at now: Timestamp
  ) async throws(StorageError) {
    try await database.write { db, changes throws(StorageError) in
      guard let account = try db.identities.account(for: identifier), account.passwordHash == old else { return }
      if identifier.kind == .customID {
        try db.identities.change(identifier, secretHash: new)
      } else {
        _ = try db.execute(
          "UPDATE passwords SET hash = ?, changed_at = ? WHERE sub = ?", .text(new), .time(now), .id(account.subject))
      }
    }
  }
}
