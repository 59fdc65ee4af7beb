import LatchkeyModel
import Storage

/// An app says what became of a guide's step, in the name of the caller's session.
package struct ReportStep: IdentityCommand {
  package static let name = "report a guide's step"

  package var session: SessionID
  package var guide: GuideDefinition
  package var step: GuideID
  package var outcome: GuideProgress.Outcome
  package var expectedRevision: Int64
  package var now: Timestamp

  package init(
    session: SessionID,
    guide: GuideDefinition,
    step: GuideID,
    outcome: GuideProgress.Outcome,
    expectedRevision: Int64,
    now: Timestamp
  ) {
    self.session = session
    self.guide = guide
    self.step = step
    self.outcome = outcome
    self.expectedRevision = expectedRevision
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    /// With the progress as it is now, changed or not.
    case taken(GuideProgress.Transition, StoredGuideProgress)
    /// The session that reported has ended.
    case callerEnded
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    // A guest that has just become part of an account must leave nothing behind that nobody will find.
    guard let session = try await rows.sessions.lockLive(session, at: now) else { return .callerEnded }
    var row =
      try await rows.guides.lock(guide.id, of: session.subject)
      ?? StoredGuideProgress(guide: guide.id, progress: GuideProgress(), updatedAt: now)
    let transition = row.progress.report(outcome, of: step, in: guide, expecting: expectedRevision)
    if transition == .changed {
      row.updatedAt = now
      try await rows.guides.put(row, of: session.subject)
      changes.guides.append(GuideChange(guide.id, of: session.subject))
    }
    return .taken(transition, row)
  }
}

/// Begins a guide anew for each of the subjects. Says whose progress that changed.
package struct ResetGuide: IdentityCommand {
  package static let name = "reset a guide"

  package var guide: GuideID
  package var subjects: [SubjectID]
  package var now: Timestamp

  package init(_ guide: GuideID, of subjects: [SubjectID], at now: Timestamp) {
    self.guide = guide
    self.subjects = subjects
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> [SubjectID] {
    var changed: [SubjectID] = []
    for subject in subjects {
      guard var row = try await rows.guides.lock(guide, of: subject), row.progress.reset() else { continue }
      row.updatedAt = now
      try await rows.guides.put(row, of: subject)
      changed.append(subject)
      changes.guides.append(GuideChange(guide, of: subject))
    }
    return changed
  }
}

extension GuideRows {
  /// The guest's progress becomes the account's where it came further, and is the guest's no longer.
  func merge(_ guest: SubjectID, into account: SubjectID, at now: Timestamp) async throws(StorageError) {
    for row in try await all(of: guest) {
      var merged =
        try await lock(row.guide, of: account)
        ?? StoredGuideProgress(guide: row.guide, progress: GuideProgress(), updatedAt: now)
      guard merged.progress.merge(row.progress) else { continue }
      merged.updatedAt = now
      try await put(merged, of: account)
    }
    try await remove(of: guest)
  }
}

/// How far a subject has come in the guides that they began: in all of them, or in one.
package struct FindGuideProgress: IdentityOperation {
  package static let name = "find progress in guides"

  package var subject: SubjectID
  package var guide: GuideID?

  package init(of subject: SubjectID, in guide: GuideID? = nil) {
    self.subject = subject
    self.guide = guide
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [StoredGuideProgress] {
    guard let guide else { return try await rows.guides.all(of: subject) }
    return try await rows.guides.find(guide, of: subject).map { [$0] } ?? []
  }
}
