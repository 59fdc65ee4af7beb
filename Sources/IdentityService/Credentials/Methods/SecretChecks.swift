import Callers
import Cryptography
import Domain
import GRPC
import LatchkeyModel
import Storage

/// Compares secrets with what is kept of them: counts each try, and turns what went wrong into what the caller may know.
struct SecretChecks: Deciding {
  let domain: IdentityDomain
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
  ) async throws(RPCError) -> CountedAttempt {
    let target = account.map { "account \($0)" } ?? what
    let attempt = SignInAttempt(
      targetHash: SHA256Hash.hash(Array(target.utf8)),
      account: account,
      requester: requester,
      now: clock.now()
    )
    switch try await perform(CountAttempt(attempt, under: policy)) {
    case .wait(let wait): throw .tooManyAttempts(retryAfter: wait)
    case .allowed(let counted): return counted
    }
  }

  func attemptSucceeded(_ attempt: CountedAttempt) async throws(RPCError) {
    // In a task of its own: a secret that was right is no failed try because its call came to its end meanwhile.
    _ = try await CallDeadline.outliving { () async throws(RPCError) in
      try await perform(SettleAttempt(attempt, .succeeded))
    }
  }

  /// Does what a right secret is presented for, and settles its try. Where that is refused, the try was none: what is
  /// refused can be presented as often as anybody likes, and would begin the count of wrong tries anew each time.
  ///
  /// - Parameters:
  ///   - counted: nil for what counts no tries.
  ///   - grants: whether something came of it. What was granted before is as good as refused.
  func settling<Value: Sendable>(
    _ counted: CountedAttempt?,
    grants: (Value) -> Bool = { _ in true },
    _ work: () async throws(RPCError) -> Value
  ) async throws(RPCError) -> Value {
    guard let counted else { return try await work() }
    let value: Value
    do throws(RPCError) {
      value = try await work()
    } catch {
      await notMade(counted)
      throw error
    }
    // What was done stands, also where this cannot be written.
    if grants(value) { _ = try? await attemptSucceeded(counted) } else { await notMade(counted) }
    return value
  }

  /// The string to keep of a new secret.
  func hash(_ secret: RedactedSecret) async throws(RPCError) -> String {
    try await hashing { place throws(PasswordHasherError) in try await passwords.hash(secret.exposed, in: place) }
  }

  /// Throws when no secret can be compared just now, or none before the call is over: before its try is counted, which
  /// costs more. It keeps no place, for a try that is then told to wait must not keep others out meanwhile.
  func checkRoom() throws(RPCError) {
    do throws(PasswordHasherError) {
      try passwords.check(until: CallDeadline.current)
    } catch {
      throw RPCError(error)
    }
  }

  /// Runs an operation of the password hasher in a place among those that wait, and turns what went wrong into what the
  /// client may know.
  ///
  /// - Parameter giveBack: takes the try off the count, which was not made then.
  func hashing<Value: Sendable>(
    giveBack: (@Sendable () async throws(StorageError) -> Void)? = nil,
    _ work: (WorkerThreads.Place) async throws(PasswordHasherError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(PasswordHasherError) {
      return try await work(try passwords.place(until: CallDeadline.current))
    } catch {
      if let giveBack { await notMade(giveBack) }
      throw RPCError(error)
    }
  }

  /// Takes a try off the count that was not made. In a task of its own: this one may have been cancelled, or be late.
  /// What cannot be given back stays counted.
  func notMade(_ giveBack: @escaping @Sendable () async throws(StorageError) -> Void) async {
    _ = try? await CallDeadline.outliving(giveBack)
  }

  func notMade(_ attempt: CountedAttempt) async {
    await notMade { [domain] () async throws(StorageError) in
      try await domain.perform(SettleAttempt(attempt, .notMade))
    }
  }
}
