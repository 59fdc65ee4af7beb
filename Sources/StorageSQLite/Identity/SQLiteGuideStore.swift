import LatchkeyModel
import Storage

/// Progress in guides in SQLite.
package struct SQLiteGuideStore: GuideStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func progress(of subject: SubjectID) async throws(StorageError) -> [StoredGuideProgress] {
    try await database.read { db throws(StorageError) in try GuideRow.all(of: subject, in: db) }
  }

  package func progress(
    of subject: SubjectID, in guide: GuideID
  ) async throws(StorageError) -> StoredGuideProgress? {
    try await database.read { db throws(StorageError) in try GuideRow.find(guide, of: subject, in: db) }
  }

  package func report(_ report: GuideReport) async throws(StorageError) -> GuideReportOutcome {
    try await database.write { db, changes throws(StorageError) in
      // A guest that has just become part of an account must leave nothing behind that nobody will find.
      guard let session = try db.sessions.live(report.session, at: report.now) else { return .callerEnded }
      var row =
        try GuideRow.find(report.guide.id, of: session.subject, in: db)
        ?? StoredGuideProgress(guide: report.guide.id, progress: GuideProgress(), updatedAt: report.now)
      let transition = row.progress.report(
        report.outcome, of: report.step, in: report.guide, expecting: report.expectedRevision)
      if transition == .changed {
        row.updatedAt = report.now
        try GuideRow.put(row, of: session.subject, in: db)
      }
      return .taken(transition, row)
    }
  }

  package func reset(
    _ guide: GuideID, of subjects: [SubjectID], at now: Timestamp
  ) async throws(StorageError) -> [SubjectID] {
    try await database.write { db, changes throws(StorageError) in
      var changed: [SubjectID] = []
      for subject in subjects {
        guard var row = try GuideRow.find(guide, of: subject, in: db), row.progress.reset() else { continue }
        row.updatedAt = now
        try GuideRow.put(row, of: subject, in: db)
        changed.append(subject)
      }
      return changed
    }
  }
}
