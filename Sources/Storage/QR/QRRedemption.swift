import LatchkeyModel

/// Who hands the grant of a session over: one instance at a time.
package struct QRRedemption: Sendable, Equatable {
  /// What the instance made up for this one attempt.
  package let holder: [UInt8]
  /// Without an answer, until when nobody else may try, by the store's clock; with one, until when it is given again.
  package let until: Timestamp
  /// What was handed over, sealed so that only the poller who redeemed can have it read.
  package let answer: [UInt8]?

  package init(holder: [UInt8], until: Timestamp, answer: [UInt8]?) {
    self.holder = holder
    self.until = until
    self.answer = answer
  }

  package enum Outcome: Sendable, Equatable {
    /// The session is consumed, and the answer is the one that counts.
    case done
    /// Another one holds the session by now.
    case superseded
    /// The session is not the one that was found.
    case changed
  }
}
