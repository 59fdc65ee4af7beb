import Cryptography
import GRPC
import LatchkeyModel
import Storage

extension IdentityCore {
  /// Counts a try to prove something before it is looked at, or refuses it.
  ///
  /// - Parameters:
  ///   - what: what is tried, such as an identifier; only its hash is kept.
  ///   - account: whom it leads to, if anybody.
  func countAttempt(
    _ what: String,
    account: SubjectID?,
    guest: SessionID?,
    under policy: AttemptPolicy = AttemptPolicy()
  ) async throws(RPCError) -> SignInAttempt {
    let attempt = SignInAttempt(
      identifierHash: SHA256Hash.hash(Array(what.utf8)),
      account: account,
      guestSession: guest,
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

  /// Runs an operation of the password hasher, and turns what went wrong into what the client may know.
  func hashing<Value: Sendable>(
    _ work: () async throws(PasswordHasherError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(PasswordHasherError) {
      return try await work()
    } catch {
      throw RPCError(error)
    }
  }
}
