import LatchkeyModel
import Storage

/// Deletes a guest or an account for good: every session ends, what is on record goes, and the records are to be purged.
/// The id stays, so that nobody else gets it.
package struct DeleteSubject: IdentityCommand {
  package static let name = "delete a subject"

  /// By whose word.
  package enum Authority: Sendable, Equatable {
    /// The guest itself, by this session.
    case guest(SessionID)
    /// The account itself, by this session; its owner is told.
    case account(SessionID, NoticeID)
    case administrator(detail: String)
    /// The retention: only a guest that was last used before this time, and only while it is this one's turn.
    case unused(before: Timestamp, by: UpkeepLease? = nil)
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

  package enum Outcome: Sendable, Equatable {
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
    /// It is another one's turn now.
    case overtaken
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    if case .unused(_, let lease?) = authority, try await !rows.renew(lease, at: now) { return .overtaken }
    guard let found = try await rows.subjects.lock(subject), found.isGuest || found.isAccount else { return .notFound }
    if let refusal = try await refusal(of: found, in: rows) { return refusal }
    if found.isGuest, try await rows.merges.open(of: subject) != nil { return .merging }
    changes.ended += try await rows.sessions.end(of: subject, except: nil, because: .subjectDeleted, at: now)
    // Before it is forgotten where.
    if case .account(_, let notice) = authority {
      try await rows.tell(.accountDeleted, notice, to: subject, at: now, noting: &changes)
    }
    try await forget(in: rows)
    try await rows.subjects.change(subject, deletedAt: now)
    try await rows.purges.insert(subject, dueAt: purgeDueAt)
    changes.notes.append(
      AuditNote(
        found.isGuest ? .guestDeleted : .accountDeleted, at: now, subject: subject, address: address, detail: detail))
    return .deleted(sessionsEnded: changes.ended.count)
  }

  private var detail: String {
    switch authority {
    case .guest, .account: ""
    case .administrator(let detail): detail
    case .unused: "unused"
    }
  }

  /// Why whoever says so may not; nil when they may.
  private func refusal(
    of found: Subject, in rows: some IdentityTransaction
  ) async throws(StorageError) -> Outcome? {
    switch authority {
    case .guest(let caller):
      guard try await rows.sessions.lockLive(caller, at: now)?.subject == subject else { return .callerEnded }
      return found.isGuest ? nil : .notGuest
    case .account(let caller, _):
      guard try await rows.sessions.lockLive(caller, at: now)?.subject == subject else { return .callerEnded }
      return found.isAccount ? nil : .notAccount
    case .administrator: return nil
    case .unused(let before, _):
      guard found.isGuest else { return .notGuest }
      guard let seen = try await rows.subjects.standing(of: subject)?.lastSeenAt, seen < before else { return .used }
      // A refresh is a use as well.
      if let renewed = try await rows.sessions.lastRotation(of: subject), renewed >= before { return .used }
      return nil
    }
  }

  /// Everything that tells who somebody was. The merges of others into an account that goes away end where they are
  /// completed: then there is no such account.
  private func forget(in rows: some IdentityTransaction) async throws(StorageError) {
    try await rows.identities.remove(of: subject)
    try await rows.identities.removePassword(of: subject)
    try await rows.guides.remove(of: subject)
    try await rows.tickets.remove(of: subject)
    try await rows.transfers.remove(of: subject)
    _ = try await rows.unlocks.remove(of: subject, exceptDevice: nil)
    try await rows.sources.remove(of: subject, allBut: 0)
    try await rows.devices.remove(usesOf: subject)
    try await rows.mergedGuests.removeRecalls(of: subject)
  }
}
