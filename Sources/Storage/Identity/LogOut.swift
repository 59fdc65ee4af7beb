import LatchkeyModel

/// Which sessions end, and whether the device goes back to its guest.
package struct LogOut: Sendable {
  package enum Reach: Sendable {
    case local
    case others
    case global
  }

  package struct NextGuest: Sendable {
    /// Who the guest becomes if the device has none.
    package var newSubject: SubjectID
    package var draft: SessionDraft

    package init(newSubject: SubjectID, draft: SessionDraft) {
      self.newSubject = newSubject
      self.draft = draft
    }
  }

  package var session: SessionID
  package var reach: Reach
  package var nextGuest: NextGuest?
  package var now: Timestamp

  package init(session: SessionID, reach: Reach, nextGuest: NextGuest?, now: Timestamp) {
    self.session = session
    self.reach = reach
    self.nextGuest = nextGuest
    self.now = now
  }
}
