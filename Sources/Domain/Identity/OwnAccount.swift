import LatchkeyModel
import Storage

/// Notes that an address is the owner's, and spends the code that showed it, if it is one of the caller's account.
package struct VerifyIdentifier: IdentityCommand {
  package static let name = "verify an identifier"

  package var identifier: AccountIdentifier
  package var caller: SessionID
  package var code: OneTimeCode
  package var now: Timestamp

  package init(_ identifier: AccountIdentifier, by caller: SessionID, code: OneTimeCode, at now: Timestamp) {
    self.identifier = identifier
    self.caller = caller
    self.code = code
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case verified
    /// It was before.
    case already
    /// The account has no such address.
    case notFound
    case codeSpent
    case callerEnded
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard let own = try await rows.lockCaller(caller, at: now), !own.isGuest else { return .callerEnded }
    guard let (identity, owner) = try await rows.identities.lock(identifier), owner == own.subject else {
      return .notFound
    }
    guard try await rows.codes.spend(code, at: now) else { return .codeSpent }
    if identity.verifiedAt == nil { try await changes.verify(identifier, of: own.subject, at: now, in: rows) }
    return identity.isProven ? .already : .verified
  }
}

/// Writes the fields of the owner's profile that are given, if the caller's session is live. Nil when it is not, or is a
/// guest's.
package struct UpdateProfile: IdentityCommand {
  package static let name = "update a profile"

  package var caller: SessionID
  package var now: Timestamp
  package var change: @Sendable (inout Profile) -> Void

  package init(by caller: SessionID, at now: Timestamp, _ change: @escaping @Sendable (inout Profile) -> Void) {
    self.caller = caller
    self.now = now
    self.change = change
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Profile? {
    guard let own = try await rows.lockCaller(caller, at: now),
      var subject = try await rows.subjects.lock(own.subject), subject.isAccount
    else { return nil }
    change(&subject.profile)
    try await rows.subjects.change(subject, usedAt: now)
    return subject.profile
  }
}
