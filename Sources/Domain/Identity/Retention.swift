import LatchkeyModel
import Storage

/// All of a subject's data was handed out, its records in this version.
package struct NoteExport: IdentityCommand {
  package static let name = "note an export"

  package var subject: SubjectID
  package var recordsVersion: Int64
  package var now: Timestamp

  package init(of subject: SubjectID, recordsVersion: Int64, at now: Timestamp) {
    self.subject = subject
    self.recordsVersion = recordsVersion
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    if let found = try await rows.subjects.lock(subject), found.kind != .deleted {
      try await rows.subjects.change(subject, exportedAt: now, recordsVersion: recordsVersion)
    }
    changes.notes.append(AuditNote(.guestExported, at: now, subject: subject))
  }
}

/// How many guests there are. Cost: counts all of them, so it is asked by upkeep and by no call.
package struct CountGuests: IdentityOperation {
  package static let name = "count guests"

  package init() {}

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> Int {
    try await rows.subjects.countGuests()
  }
}

/// Guests that were last used before a time, in the order of that.
package struct UnusedGuests: IdentityOperation {
  package static let name = "find unused guests"

  package var time: Timestamp
  package var last: UnusedGuest?
  package var limit: Int

  package init(before time: Timestamp, after last: UnusedGuest?, limit: Int) {
    self.time = time
    self.last = last
    self.limit = limit
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [UnusedGuest] {
    try await rows.subjects.unusedGuests(before: time, after: last, limit: limit)
  }
}

/// Deleted subjects whose records are to be purged now.
package struct DuePurges: IdentityOperation {
  package static let name = "find purges"

  package var now: Timestamp
  package var limit: Int

  package init(at now: Timestamp, limit: Int) {
    self.now = now
    self.limit = limit
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [PendingPurge] {
    try await rows.purges.due(at: now, limit: limit)
  }
}

/// Takes purges that are due, for as long as one may take: nobody else asks for them meanwhile, and when that never comes
/// about they are due again.
package struct LeasePurges: IdentityCommand {
  package static let name = "take purges"

  package var now: Timestamp
  package var end: Timestamp
  package var limit: Int

  package init(at now: Timestamp, until end: Timestamp, limit: Int) {
    self.now = now
    self.end = end
    self.limit = limit
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> [PendingPurge] {
    let due = try await rows.purges.lockDue(at: now, limit: limit)
    for purge in due { try await rows.purges.change(purge.subject, attempts: purge.attempts, dueAt: end) }
    return due
  }
}

/// What came of purging a deleted subject's records.
package struct SettlePurge: IdentityCommand {
  package static let name = "settle a purge"

  package enum Result: Sendable, Equatable {
    case done
    /// It is tried again not before this time.
    case postponed(until: Timestamp)
    /// Whoever took it ends before that is known: it is due again at once.
    case givenBack(at: Timestamp)
  }

  package var subject: SubjectID
  package var result: Result

  package init(of subject: SubjectID, _ result: Result) {
    self.subject = subject
    self.result = result
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    switch result {
    case .done: try await rows.purges.remove(subject)
    case .postponed(let next):
      guard let purge = try await rows.purges.lock(subject) else { return }
      try await rows.purges.change(subject, attempts: purge.attempts + 1, dueAt: next)
    case .givenBack(let now):
      guard let purge = try await rows.purges.lock(subject) else { return }
      try await rows.purges.change(subject, attempts: purge.attempts, dueAt: now)
    }
  }
}
