import LatchkeyModel
import Storage

/// The account behind an identifier, with the hash of the secret that signs in by it; nil when there is none.
package struct FindAccount: IdentityOperation {
  package static let name = "find an account"

  package var identifier: AccountIdentifier

  package init(for identifier: AccountIdentifier) {
    self.identifier = identifier
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> PasswordAccount? {
    try await rows.identities.account(for: identifier)
  }
}

/// A guest or account, or whoever was one.
package struct FindSubject: IdentityOperation {
  package static let name = "find a subject"

  package var subject: SubjectID

  package init(_ subject: SubjectID) {
    self.subject = subject
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> Subject? {
    try await rows.subjects.find(subject)
  }
}

/// What leads to an account, the first linked first.
package struct ListIdentities: IdentityOperation {
  package static let name = "list identities"

  package var account: SubjectID

  package init(of account: SubjectID) {
    self.account = account
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [Identity] {
    try await rows.identities.all(of: account)
  }
}

/// An account as its owner recognises it; empty for whoever has nothing that leads to them.
package struct FindMask: IdentityOperation {
  package static let name = "find an account's mask"

  package var account: SubjectID

  package init(of account: SubjectID) {
    self.account = account
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> String {
    try await rows.identities.mask(of: account)
  }
}

/// The hash of an account's password; nil for an account without one.
package struct FindPassword: IdentityOperation {
  package static let name = "find a password"

  package var account: SubjectID

  package init(of account: SubjectID) {
    self.account = account
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> String? {
    try await rows.identities.findPassword(of: account)
  }
}

/// Puts a stronger hash of the same secret in the place of the one that was checked; does nothing if that is no longer the
/// hash.
package struct StrengthenSecret: IdentityCommand {
  package static let name = "strengthen a secret's hash"

  /// What leads to the account: a custom one has a secret of its own.
  package var identifier: AccountIdentifier
  package var old: String
  package var new: String
  package var now: Timestamp

  package init(of identifier: AccountIdentifier, from old: String, to new: String, at now: Timestamp) {
    self.identifier = identifier
    self.old = old
    self.new = new
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard let (_, owner) = try await rows.identities.lock(identifier),
      let current = try await rows.identities.account(for: identifier)?.passwordHash, current == old
    else { return }
    if identifier.kind == .customID {
      try await rows.identities.change(identifier, secretHash: new)
    } else if try await rows.identities.lockPassword(of: owner) == old {
      try await rows.identities.putPassword(new, of: owner, at: now)
    }
  }
}
