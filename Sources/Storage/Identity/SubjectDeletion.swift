import LatchkeyModel

/// Somebody is to be deleted, and by whose word.
package struct SubjectDeletion: Sendable {
  package enum Authority: Sendable, Equatable {
    /// The guest itself, by this session.
    case guest(SessionID)
    /// The account itself, by this session.
    case account(SessionID)
    case administrator(detail: String)
    /// The retention: only a guest that was last used before this time.
    case unused(before: Timestamp)
  }

  package var subject: SubjectID
  package var authority: Authority
  package var address: String
  package var now: Timestamp
  /// Until then only the call that deletes asks the migrator.
  package var purgeDueAt: Timestamp

  package init(
    subject: SubjectID, authority: Authority, address: String = "", now: Timestamp, purgeDueAt: Timestamp
  ) {
    self.subject = subject
    self.authority = authority
    self.address = address
    self.now = now
    self.purgeDueAt = purgeDueAt
  }
}

/// What came of it.
package enum DeletionOutcome: Sendable, Equatable {
  case deleted(sessionsEnded: Int)
  case notFound
  /// An account, where only a guest may be deleted.
  case notGuest
  /// A guest, where only an account may be.
  case notAccount
  /// Its data is on its way into an account.
  case merging
  /// The caller's session has ended.
  case callerEnded
  /// The guest was used meanwhile.
  case used
}
