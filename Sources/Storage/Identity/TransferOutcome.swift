import LatchkeyModel

/// What came of redeeming a code.
package enum TransferOutcome: Sendable, Equatable {
  case moved(MovedSubject)
  /// Unknown, expired, redeemed, cancelled, or its maker's session has ended: all the same to who asks.
  case unknown
  case challengeUsed
  /// Its maker agreed to something else. Costs a try.
  case notAgreed
  /// Its maker allowed only devices of the own network. Costs a try.
  case otherNetwork
  /// The device that made it.
  case sameDevice
  /// The guest's data is on its way into an account.
  case merging
}

/// A guest or account on its new device.
package struct MovedSubject: Sendable, Equatable {
  package var session: Session
  package var profile: Profile
  /// Who used the new device before.
  package var previousSubject: SubjectID?
  package var sessionsEnded: Int

  package init(session: Session, profile: Profile, previousSubject: SubjectID?, sessionsEnded: Int) {
    self.session = session
    self.profile = profile
    self.previousSubject = previousSubject
    self.sessionsEnded = sessionsEnded
  }
}
