import LatchkeyModel

/// The ends of sessions in rows that more than one process has: what others ended, and what this one ended without having
/// been answered so.
package protocol SharedEndings: Sendable {
  /// Every session whose end became known to the rows after `mark` was read, whoever ended it and however long its change
  /// took. Without a mark, and when the rows' database was taken over by another server since, those that ended at `time`
  /// or later, which may be some that were told before.
  func ended(after mark: EndingsMark?, since time: Timestamp) async throws(StorageError) -> EndingsNews
}

package struct EndingsNews: Sendable {
  package let sessions: [EndedSession]
  /// What to ask after next.
  package let mark: EndingsMark

  package init(sessions: [EndedSession], mark: EndingsMark) {
    self.sessions = sessions
    self.mark = mark
  }
}

/// A state of the rows, in the engine's own words.
package struct EndingsMark: Sendable, Equatable {
  /// Who said so: nobody else understands it.
  package let server: String
  package let state: String

  package init(server: String, state: String) {
    self.server = server
    self.state = state
  }
}
