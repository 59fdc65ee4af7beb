import LatchkeyModel

/// A guest's new session.
package struct IssuedGuest: Sendable, Equatable {
  package var session: Session
  /// False when the device key already had its guest.
  package var isNew: Bool
  package var lastLogin: LastLoginHint?

  package init(session: Session, isNew: Bool, lastLogin: LastLoginHint?) {
    self.session = session
    self.isNew = isNew
    self.lastLogin = lastLogin
  }
}
