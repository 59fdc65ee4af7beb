import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Signs in by an identifier and a password.
struct PasswordLoginMethod: LoginMethod {
  static let method = SignInMethod.password

  private let core: IdentityCore

  init(_ core: IdentityCore) {
    self.core = core
  }

  func verify(
    _ credential: IdentityV1.PasswordCredential, guest: SessionID?
  ) async throws(RPCError) -> VerifiedLogin {
    let identifier = try RequestFields.identifier(credential.identifier, "password.identifier")
    let password = try RequestFields.presentedPassword(credential.password, "password.password")
    let found = try await core.stored { () throws(StorageError) in try await core.accounts.account(for: identifier) }
    let attempt = SignInAttempt(
      identifierHash: SHA256Hash.hash(Array("\(identifier.kind.rawValue) \(identifier.canonical)".utf8)),
      account: found?.subject,
      guestSession: guest,
      now: core.clock.now()
    )
    // Counted before the password is looked at, for accounts that do not exist as well: guesses at the same time count
    // like any others, and a wait tells nothing about which accounts there are.
    let outcome = try await core.stored { () throws(StorageError) in
      try await core.attempts.begin(attempt, under: AttemptPolicy())
    }
    if case .wait(let wait) = outcome { throw .tooManyAttempts(retryAfter: wait) }
    guard let found, let hash = found.passwordHash else {
      // As long as a real check takes, so that time does not tell which accounts exist (R25).
      try await hashing { () throws(PasswordHasherError) in
        try await core.passwords.verifyDummy(password.secret.exposed)
      }
      throw .invalidCredentials
    }
    let matches = try await hashing { () throws(PasswordHasherError) in
      try await core.passwords.verify(password.secret.exposed, against: hash)
    }
    guard matches else { throw .invalidCredentials }
    try await core.stored { () throws(StorageError) in try await core.attempts.succeeded(attempt) }
    return VerifiedLogin(
      method: Self.method,
      account: found.subject,
      mask: identifier.mask,
      proof: .password(account: found.subject, identifier: identifier, hash: hash),
      afterwards: { [core] in await Self.strengthen(hash, of: found.subject, password, core) }
    )
  }

  /// Stores a hash at today's cost when the old one was cheaper. Failing changes nothing: the next sign-in tries again.
  private static func strengthen(
    _ old: String, of account: SubjectID, _ password: Password, _ core: IdentityCore
  ) async {
    guard core.passwords.needsRehash(old), let new = try? await core.passwords.hash(password.secret.exposed) else {
      return
    }
    try? await core.accounts.replacePasswordHash(of: account, from: old, to: new, at: core.clock.now())
  }

  private func hashing<Value: Sendable>(
    _ work: () async throws(PasswordHasherError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(PasswordHasherError) {
      return try await work()
    } catch {
      throw RPCError(error)
    }
  }
}
