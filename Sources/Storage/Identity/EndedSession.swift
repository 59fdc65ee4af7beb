import LatchkeyModel

/// A session that has just ended, durably.
package struct EndedSession: Sendable, Equatable {
  package let id: SessionID
  package let subject: SubjectID
  package let why: Session.End
  package let at: Timestamp

  package init(id: SessionID, subject: SubjectID, why: Session.End, at: Timestamp) {
    self.id = id
    self.subject = subject
    self.why = why
    self.at = at
  }
}
