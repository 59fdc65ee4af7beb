import LatchkeyModel

/// A challenge that a sign-in, a registration or an enrolment uses up: kept until it expires, so that it holds once.
package struct UsedChallenge: Sendable, Equatable {
  /// SHA-256 of the challenge.
  package var hash: [UInt8]
  package var expiry: Timestamp

  package init(hash: [UInt8], expiry: Timestamp) {
    self.hash = hash
    self.expiry = expiry
  }
}
