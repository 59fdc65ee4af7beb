import LatchkeyModel

/// One-time codes, for identifiers that an account has or not: one for each of those that ask for them. Only keyed hashes
/// are kept.
package protocol OneTimeCodeStore: Sendable {
  /// Puts a new code in the place of the requester's last one, unless it is too soon for another.
  ///
  /// - Parameter account: the account that the code would sign in to, if any.
  func replace(
    _ code: OneTimeCode, for account: SubjectID?, by requester: Requester, under policy: OneTimeCodePolicy,
    at now: Timestamp
  ) async throws(StorageError) -> OneTimeCodeIssue

  /// The code did not arrive: it is void, and another may be asked for as if it had never been.
  func withdraw(_ code: OneTimeCode, under policy: OneTimeCodePolicy, at now: Timestamp) async throws(StorageError)

  /// Looks a presented code up; one that is not right costs a try. A right one stays until a session begins with it.
  func present(_ code: PresentedOneTimeCode, at now: Timestamp) async throws(StorageError) -> OneTimeCodeCheck
}

/// A code as it is kept.
package struct OneTimeCode: Sendable, Equatable {
  package var identifierHash: [UInt8]
  package var codeHash: [UInt8]
  /// SHA-256 of the handle that its requester was told.
  package var handleHash: [UInt8]

  package init(identifierHash: [UInt8], codeHash: [UInt8], handleHash: [UInt8]) {
    self.identifierHash = identifierHash
    self.codeHash = codeHash
    self.handleHash = handleHash
  }
}

/// A code as somebody presents it.
package struct PresentedOneTimeCode: Sendable, Equatable {
  package var identifierHash: [UInt8]
  package var codeHash: [UInt8]
  /// Nil from who says none: then it is the code that the requester's device or network asked for.
  package var handleHash: [UInt8]?
  package var account: SubjectID?
  package var requester: Requester

  package init(
    identifierHash: [UInt8], codeHash: [UInt8], handleHash: [UInt8]?, account: SubjectID?, requester: Requester
  ) {
    self.identifierHash = identifierHash
    self.codeHash = codeHash
    self.handleHash = handleHash
    self.account = account
    self.requester = requester
  }
}

package enum OneTimeCodeIssue: Sendable, Equatable {
  case replaced
  case wait(Duration)
}

package enum OneTimeCodeCheck: Sendable, Equatable {
  case holds(OneTimeCode)
  case wrong(attemptsLeft: Int64)
  /// There is none, it expired, or its tries are used up.
  case void
}
