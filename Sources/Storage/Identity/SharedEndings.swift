import LatchkeyModel

/// The ends of sessions in rows that more than one process has: what others ended, and what this one ended without having
/// been answered so.
package protocol SharedEndings: Sendable {
  /// Every session whose end became known to the rows after `mark` was read, whoever ended it and however long its change
  /// took. Without a mark, and when the rows' database was or may have been taken over by another server since (asked by a
  /// connection that was made after the mark), those that ended at `time` or later, which may be some that were told before.
  ///
  /// At most `limit` at once, and then a mark that says so (``EndingsMark/place``), to go on from: until that is nil there are
  /// more. All pages go up to when the first was read; what became known meanwhile is told after the last.
  func ended(
    after mark: EndingsMark?, since time: Timestamp, limit: Int
  ) async throws(StorageError) -> EndingsNews

  /// Forgets what was told to watchers before `time`: at most `limit` rows at once. Says how many.
  func forgetNews(before time: Timestamp, limit: Int) async throws(StorageError) -> Int
}

package struct EndingsNews: Sendable {
  package let sessions: [EndedSession]
  /// What watchers want to know besides (``SessionChanges/news``), in the order in which it was committed, as far as that
  /// can be said, with the last page. Nil where more than that may have happened: without a mark, and when it was too much.
  package let news: SessionChanges?
  /// What to ask after next.
  package let mark: EndingsMark

  package init(sessions: [EndedSession], news: SessionChanges?, mark: EndingsMark) {
    self.sessions = sessions
    self.news = news
    self.mark = mark
  }
}

/// A state of the rows, in the engine's own words.
package struct EndingsMark: Sendable, Equatable {
  /// Who said so: nobody else understands it.
  package let server: String
  package let state: String
  /// How far a reading in pages has come; nil when there is nothing more to read at once.
  package let place: Place?

  package init(server: String, state: String, place: Place? = nil) {
    self.server = server
    self.state = state
    self.place = place
  }

  /// A session among those that are read.
  package struct Place: Sendable, Equatable {
    package let at: Int64
    package let session: SessionID
    /// The state up to which is read what came since the mark's; nil where everything from a time on is read.
    package let end: String?

    package init(at: Int64, session: SessionID, end: String?) {
      self.at = at
      self.session = session
      self.end = end
    }
  }
}
