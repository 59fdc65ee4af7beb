import LatchkeyModel

/// A try to sign in.
package struct SignInAttempt: Sendable, Equatable {
  /// SHA-256 of what was tried: of the account or, where there is none, of what a person typed, which may have been a
  /// secret where the identifier belongs.
  package var targetHash: [UInt8]
  /// The account that it leads to, if there is one.
  package var account: SubjectID?
  package var requester: Requester
  package var now: Timestamp

  package init(targetHash: [UInt8], account: SubjectID?, requester: Requester, now: Timestamp) {
    self.targetHash = targetHash
    self.account = account
    self.requester = requester
    self.now = now
  }
}
