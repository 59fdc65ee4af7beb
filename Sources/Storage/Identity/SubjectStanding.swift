import LatchkeyModel

/// A guest or account with what only its keepers look at.
package struct SubjectStanding: Sendable, Equatable {
  package var subject: Subject
  package var lastSeenAt: Timestamp
  package var exportedAt: Timestamp?

  package init(subject: Subject, lastSeenAt: Timestamp, exportedAt: Timestamp?) {
    self.subject = subject
    self.lastSeenAt = lastSeenAt
    self.exportedAt = exportedAt
  }
}

/// A guest that has not been used for long.
package struct UnusedGuest: Sendable, Equatable {
  package var id: SubjectID
  package var lastSeenAt: Timestamp
  /// The version of its records that was handed out; nil when none was.
  package var exportedVersion: Int64?

  package init(id: SubjectID, lastSeenAt: Timestamp, exportedVersion: Int64?) {
    self.id = id
    self.lastSeenAt = lastSeenAt
    self.exportedVersion = exportedVersion
  }
}

/// Records of somebody who was deleted, which the migrator still has.
package struct PendingPurge: Sendable, Equatable {
  package var subject: SubjectID
  package var attempts: Int64

  package init(subject: SubjectID, attempts: Int64) {
    self.subject = subject
    self.attempts = attempts
  }
}
