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
  /// Notices that owners will not get, because too many wait for them.
  package var droppedNotices = 0
  /// Where the call came from that brought the change about; empty when it is not told.
  package var address = ""

  package init(began: [Session] = [], ended: [EndedSession] = []) {
    self.began = began
    self.ended = ended
  }

  package var isEmpty: Bool {
    began.isEmpty && ended.isEmpty && confirmed.isEmpty && failedMerges.isEmpty && droppedNotices == 0
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
