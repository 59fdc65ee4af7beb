import LatchkeyModel
import Storage

/// Ends every session of a subject and lets none begin, or lets them begin again. Nil when there is no such guest or
/// account; otherwise how many sessions ended.
package struct SetDisabled: IdentityCommand {
  package static let name = "disable or enable a subject"

  package var isDisabled: Bool
  package var subject: SubjectID
  package var detail: String
  package var now: Timestamp

  package init(_ isDisabled: Bool, _ subject: SubjectID, detail: String, at now: Timestamp) {
    self.isDisabled = isDisabled
    self.subject = subject
    self.detail = detail
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Int? {
    guard let found = try await rows.subjects.lock(subject), found.isGuest || found.isAccount else { return nil }
    if found.isDisabled != isDisabled {
      try await rows.subjects.change(subject, disabledAt: isDisabled ? now : nil)
      changes.notes.append(
        AuditNote(isDisabled ? .subjectDisabled : .subjectEnabled, at: now, subject: subject, detail: detail))
    }
    if isDisabled {
      changes.ended += try await rows.sessions.end(of: subject, except: nil, because: .subjectDisabled, at: now)
      try await rows.tickets.remove(of: subject)
    }
    return changes.ended.count
  }
}

/// Ends every session of a subject; nil when there is no such guest or account.
package struct EndSessionsOf: IdentityCommand {
  package static let name = "end a subject's sessions"

  package var subject: SubjectID
  package var detail: String
  package var now: Timestamp

  package init(_ subject: SubjectID, detail: String, at now: Timestamp) {
    self.subject = subject
    self.detail = detail
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Int? {
    guard let found = try await rows.subjects.lock(subject), found.isGuest || found.isAccount else { return nil }
    changes.ended += try await rows.sessions.end(of: subject, except: nil, because: .administrator, at: now)
    try await rows.tickets.remove(of: subject)
    changes.notes.append(AuditNote(.adminChanged, at: now, subject: subject, detail: "ended sessions: \(detail)"))
    return changes.ended.count
  }
}

/// Ends at most `limit` sessions that began until a time, whoever they are of. Says how many.
package struct EndEverybodysSessions: IdentityCommand {
  package static let name = "end everybody's sessions"

  package var time: Timestamp
  package var limit: Int
  package var now: Timestamp

  package init(begunUntil time: Timestamp, limit: Int, at now: Timestamp) {
    self.time = time
    self.limit = limit
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Int {
    changes.ended += try await rows.sessions.end(begunUntil: time, limit: limit, because: .administrator, at: now)
    return changes.ended.count
  }
}

/// A guest or account with what only its keepers look at; nil for an unknown id.
package struct FindStanding: IdentityOperation {
  package static let name = "find a subject's standing"

  package var subject: SubjectID

  package init(of subject: SubjectID) {
    self.subject = subject
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> SubjectStanding? {
    try await rows.subjects.standing(of: subject)
  }
}

/// The guest or account behind an identifier.
package struct FindOwner: IdentityOperation {
  package static let name = "find an identifier's owner"

  package var identifier: AccountIdentifier

  package init(of identifier: AccountIdentifier) {
    self.identifier = identifier
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> SubjectID? {
    try await rows.identities.find(identifier)?.owner
  }
}
