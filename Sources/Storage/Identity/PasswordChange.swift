import LatchkeyModel

/// A change of an account's password by its owner.
package struct PasswordChange: Sendable {
  package enum Authority: Sendable {
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
  package var address: String
  package var now: Timestamp

  package init(
    authority: Authority, currentHash: String?, newHash: String?, endsOthers: Bool, address: String, now: Timestamp
  ) {
    self.authority = authority
    self.currentHash = currentHash
    self.newHash = newHash
    self.endsOthers = endsOthers
    self.address = address
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case changed(PasswordChanged)
    case callerEnded
    /// The password was changed meanwhile.
    case stale
    /// The code was spent, or its address leads there no more.
    case codeSpent
    /// Nothing else would lead to the account.
    case lastWayIn
    case disabled
  }
}

/// What a change of a password did.
package struct PasswordChanged: Sendable, Equatable {
  package var account: SubjectID
  package var sessionsEnded: Int

  package init(account: SubjectID, sessionsEnded: Int) {
    self.account = account
    self.sessionsEnded = sessionsEnded
  }
}
