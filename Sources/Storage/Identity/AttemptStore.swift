import LatchkeyModel

/// Tries to sign in that were not right, so that a restart forgets none.
package protocol AttemptStore: Sendable {
  /// Counts a try before it is made, so that tries at the same time count as well, or says how long to wait.
  func begin(_ attempt: SignInAttempt, under policy: AttemptPolicy) async throws(StorageError) -> AttemptOutcome

  /// The try was right: the count begins anew.
  func succeeded(_ attempt: SignInAttempt) async throws(StorageError)

  /// The try was not made after all: it does not count.
  func notMade(_ attempt: SignInAttempt) async throws(StorageError)
}
