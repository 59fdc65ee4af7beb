import LatchkeyModel

/// A try to sign in.
package struct SignInAttempt: Sendable, Equatable {
  /// SHA-256 of what was tried: a person may have typed a secret where the identifier belongs.
  package var identifierHash: [UInt8]
  /// The account that it leads to, if there is one.
  package var account: SubjectID?
  /// The session of the guest who tries, by which a device is known.
  package var guestSession: SessionID?
  package var now: Timestamp

  package init(identifierHash: [UInt8], account: SubjectID?, guestSession: SessionID?, now: Timestamp) {
    self.identifierHash = identifierHash
    self.account = account
    self.guestSession = guestSession
    self.now = now
  }
}
