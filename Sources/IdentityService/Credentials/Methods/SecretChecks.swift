import Cryptography
import GRPC
import LatchkeyModel
import Storage

/// Compares secrets with what is kept of them: counts each try, and turns what went wrong into what the caller may know.
struct SecretChecks: Surrounded {
  let attempts: any AttemptStore
  let passwords: PasswordHasher
  let surroundings: Surroundings

  /// Counts a try to prove something before it is looked at, or refuses it.
  ///
  /// - Parameters:
  ///   - what: what is tried, such as an identifier; only its hash is kept.
  ///   - account: whom it leads to, if anybody. Then it counts for the account, whatever was tried.
  func countAttempt(
    _ what: String,
    account: SubjectID?,
    by requester: Requester,
    under policy: AttemptPolicy = AttemptPolicy()
  ) async throws(RPCError) -> SignInAttempt {
    let target = account.map { "account \($0)" } ?? what
    let attempt = SignInAttempt(
      targetHash: SHA256Hash.hash(Array(target.utf8)),
      account: account,
      requester: requester,
      now: clock.now()
    )
    let outcome = try await stored { () throws(StorageError) in try await attempts.begin(attempt, under: policy) }
    if case .wait(let wait) = outcome { throw .tooManyAttempts(retryAfter: wait) }
    return attempt
  }

  func attemptSucceeded(_ attempt: SignInAttempt) async throws(RPCError) {
    try await stored { () throws(StorageError) in try await attempts.succeeded(attempt) }
  }

  /// The string to keep of a new secret.
  func hash(_ secret: RedactedSecret) async throws(RPCError) -> String {
    try await hashing { () throws(PasswordHasherError) in try await passwords.hash(secret.exposed) }
  }

  /// Throws when so many secrets wait to be compared that another would be refused: before its try is counted.
  func checkHashingRoom() throws(RPCError) {
    do throws(PasswordHasherError) { try passwords.checkRoom() } catch { throw RPCError(error) }
  }

  /// Runs an operation of the password hasher, and turns what went wrong into what the client may know.
  ///
  /// - Parameter giveBack: takes the try off the count, which was not made then.
  func hashing<Value: Sendable>(
    giveBack: (@Sendable () async throws(StorageError) -> Void)? = nil,
    _ work: () async throws(PasswordHasherError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(PasswordHasherError) {
      return try await work()
    } catch {
      // In a task of its own: this one may have been cancelled. What cannot be given back stays counted.
      if let giveBack { await Task { try? await giveBack() }.value }
      throw RPCError(error)
    }
  }
}
