import LatchkeyModel

/// What one change did to sessions, and what else of it is a security event.
package struct SessionChanges: Sendable, Equatable {
  package var began: [Session] = []
  package var ended: [EndedSession] = []
  /// Sessions whose owner stood by them.
  package var confirmed: [SessionID] = []
  /// Events besides sessions that begin and end, which are recorded by themselves.
  package var notes: [AuditNote] = []
  /// Guests whose data did not make it into an account.
  package var failedMerges: [FailedMerge] = []
  /// Whose progress in guides became another.
  package var guides: [GuideChange] = []
  /// Subjects that came to be by this: nobody watches them yet.
  package var newcomers: Set<SubjectID> = []
  /// Notices that owners will not get, because too many wait for them.
  package var droppedNotices = 0
  /// Where the call came from that brought the change about; empty when it is not told.
  package var address = ""

  package init(began: [Session] = [], ended: [EndedSession] = []) {
    self.began = began
    self.ended = ended
  }

  package var isEmpty: Bool {
    began.isEmpty && ended.isEmpty && confirmed.isEmpty && failedMerges.isEmpty && guides.isEmpty
      && droppedNotices == 0
  }

  /// What of it watchers at other instances want to know, besides what ended, which they find by itself.
  package var news: SessionChanges {
    var news = SessionChanges()
    news.began = began.filter { !newcomers.contains($0.subject) }
    news.confirmed = confirmed
    news.failedMerges = failedMerges
    news.guides = guides
    return news
  }

  /// Everything that goes on record.
  package var auditNotes: [AuditNote] {
    notes
      + ended.map {
        AuditNote(
          .sessionEnded, at: $0.at, subject: $0.subject, session: $0.id, address: address, detail: "\($0.why)")
      }
      + began.map {
        AuditNote(
          .sessionBegan, at: $0.family.rotatedAt, subject: $0.subject, session: $0.id, address: address,
          detail: "\($0.method.rawValue) \($0.client)")
      }
  }
}

/// Somebody's progress in a guide became another.
package struct GuideChange: Sendable, Equatable {
  package let subject: SubjectID
  /// Nil where it may be any.
  package let guide: GuideID?

  package init(_ guide: GuideID?, of subject: SubjectID) {
    self.guide = guide
    self.subject = subject
  }
}

/// A guest's data did not make it into an account.
package struct FailedMerge: Sendable, Equatable {
  package let target: SubjectID
  /// Nil when the migrator never took it on.
  package let migration: String?
  package let at: Timestamp

  package init(target: SubjectID, migration: String?, at: Timestamp) {
    self.target = target
    self.migration = migration
    self.at = at
  }
}
