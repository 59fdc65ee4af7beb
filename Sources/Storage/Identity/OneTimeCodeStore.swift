import LatchkeyModel

/// One-time codes: one for each identifier, whether an account has it or not. Only keyed hashes are kept.
package protocol OneTimeCodeStore: Sendable {
  /// Puts a new code in the place of the last one, unless it is too soon for another.
  func replace(_ code: OneTimeCode, under policy: OneTimeCodePolicy, at now: Timestamp) async throws(StorageError)
    -> OneTimeCodeIssue

  /// The code did not arrive: it is void, and another may be asked for as if it had never been.
  func withdraw(_ code: OneTimeCode, under policy: OneTimeCodePolicy, at now: Timestamp) async throws(StorageError)

  /// Looks a presented code up; one that is not right costs a try. A right one stays until a session begins with it.
  func present(_ code: OneTimeCode, at now: Timestamp) async throws(StorageError) -> OneTimeCodeCheck
}

/// A code as it is kept and compared.
package struct OneTimeCode: Sendable, Equatable {
  package var identifierHash: [UInt8]
  package var codeHash: [UInt8]

  package init(identifierHash: [UInt8], codeHash: [UInt8]) {
    self.identifierHash = identifierHash
    self.codeHash = codeHash
  }
}

package enum OneTimeCodeIssue: Sendable, Equatable {
  case replaced
  case wait(Duration)
}

package enum OneTimeCodeCheck: Sendable, Equatable {
  case holds
  case wrong(attemptsLeft: Int64)
  /// There is none, it expired, or its tries are used up.
  case void
}
