import LatchkeyModel
import Storage

/// An account's owner changes its password, sets one, or takes it away.
package struct ChangePassword: IdentityCommand {
  package static let name = "change a password"

  package enum Authority: Sendable, Equatable {
    /// The owner's session, which stays.
    case session(SessionID)
    /// A code that was sent to a verified address of the account; it is spent. No session stays that should end.
    case code(SubjectID, AccountIdentifier, OneTimeCode)
  }

  package var authority: Authority
  /// The hash that must still be the account's, nil for none; not looked at for a code.
  package var currentHash: String?
  /// Nil takes the password away.
  package var newHash: String?
  /// Whether other sessions end, and what unlocks the account on other devices goes.
  package var endsOthers: Bool
  /// What the owner is told.
  package var notice: NoticeID
  package var address: String
  package var now: Timestamp

  package init(
    authority: Authority, currentHash: String?, newHash: String?, endsOthers: Bool, notice: NoticeID, address: String,
    now: Timestamp
  ) {
    self.authority = authority
    self.currentHash = currentHash
    self.newHash = newHash
    self.endsOthers = endsOthers
    self.notice = notice
    self.address = address
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case changed(of: SubjectID, sessionsEnded: Int)
    case callerEnded
    /// The password was changed meanwhile.
    case stale
    /// The code was spent, or its address leads there no more.
    case codeSpent
    /// Nothing else would lead to the account.
    case lastWayIn
    case disabled
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    // Every refusal comes before the first change: an outcome is committed, whatever it says.
    let owner: Owner
    switch try await findOwner(in: rows) {
    case .found(let found): owner = found
    case .refused(let refusal): return refusal
    }
    let account = owner.account
    if newHash == nil, try await !rows.identities.all(of: account).contains(where: \.needsNoPassword) {
      return .lastWayIn
    }
    if case .code(_, _, let code) = authority, try await !rows.codes.spend(code, at: now) { return .codeSpent }
    if let newHash {
      try await rows.identities.putPassword(newHash, of: account, at: now)
    } else {
      try await rows.identities.removePassword(of: account)
    }
    // What was begun by the old password is not finished by it.
    try await rows.tickets.remove(of: account)
    if endsOthers {
      let kept = owner.session
      try await changes.removeUnlocks(of: account, exceptDevice: kept?.device.keyThumbprint, at: now, in: rows)
      try await rows.transfers.remove(of: account)
      changes.ended += try await rows.sessions.end(of: account, except: kept?.id, because: .loggedOut, at: now)
    }
    var detail = ""
    if case .code(_, let identifier, _) = authority { detail = "recovered by \(identifier.mask)" }
    changes.notes.append(
      AuditNote(
        newHash == nil ? .passwordRemoved : .passwordChanged, at: now, subject: account, session: owner.session?.id,
        detail: detail))
    try await rows.tell(told, notice, to: account, at: now, noting: &changes)
    return .changed(of: account, sessionsEnded: changes.ended.count)
  }

  private var told: AccountNotice {
    guard newHash != nil else { return .passwordRemoved }
    if case .code = authority { return .recovered }
    return currentHash == nil ? .passwordSet : .passwordChanged
  }

  private struct Owner {
    let account: SubjectID
    /// The session that asks.
    let session: Session?
  }

  private enum Finding {
    case found(Owner)
    case refused(Outcome)
  }

  private func findOwner(in rows: some IdentityTransaction) async throws(StorageError) -> Finding {
    switch authority {
    case .session(let caller):
      guard let own = try await rows.lockCaller(caller, at: now), !own.isGuest else {
        return .refused(.callerEnded)
      }
      guard try await rows.identities.lockPassword(of: own.subject) == currentHash else { return .refused(.stale) }
      return .found(Owner(account: own.subject, session: own))
    case .code(let subject, let identifier, _):
      guard let found = try await rows.subjects.lock(subject), found.isAccount,
        let (identity, owner) = try await rows.identities.lock(identifier), owner == subject, identity.isProven
      else { return .refused(.codeSpent) }
      return found.isDisabled ? .refused(.disabled) : .found(Owner(account: subject, session: nil))
    }
  }
}

extension Identity {
  /// Whether it leads to its account without the account's password: a verified address, a provider, a secret of its own.
  fileprivate var needsNoPassword: Bool { verifiedAt != nil || kind == .oidc || kind == .customID }
}
