import Cryptography
import GRPC
import LatchkeyModel
import Storage

/// What is common to the methods by which an identifier and a secret sign in.
struct AccountSecret: Sendable {
  let core: IdentityCore
  let method: SignInMethod
  let identifier: AccountIdentifier
  let secret: RedactedSecret

  func verify(_ attempt: LoginAttempt) async throws(RPCError) -> VerifiedLogin {
    try core.checkHashingRoom()
    let found = try await core.stored { () throws(StorageError) in try await core.accounts.account(for: identifier) }
    // Counted before the secret is looked at, for accounts that do not exist as well: guesses at the same time count
    // like any others, and a wait tells nothing about which accounts there are.
    let counted = try await core.countAttempt(
      "\(identifier.kind.rawValue) \(identifier.canonical)",
      account: found?.subject,
      by: attempt.requester
    )
    let attempts = core.attempts
    let giveBack = { @Sendable () async throws(StorageError) in try await attempts.notMade(counted) }
    guard let found, let hash = found.passwordHash else {
      // As long as a real check takes, so that time does not tell which accounts exist (R25).
      try await core.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
        try await core.passwords.verifyDummy(secret.exposed)
      }
      throw .invalidCredentials
    }
    let matches = try await core.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
      try await core.passwords.verify(secret.exposed, against: hash)
    }
    guard matches else { throw .invalidCredentials }
    try await core.attemptSucceeded(counted)
    return VerifiedLogin(
      method: method,
      account: found.subject,
      mask: identifier.mask,
      proof: .password(account: found.subject, identifier: identifier, hash: hash),
      afterwards: { await strengthen(hash) }
    )
  }

  /// Stores a hash at today's cost when the old one was cheaper. Failing changes nothing: the next sign-in tries again.
  private func strengthen(_ old: String) async {
    guard core.passwords.needsRehash(old), let new = try? await core.passwords.hash(secret.exposed) else { return }
    try? await core.accounts.replaceSecretHash(of: identifier, from: old, to: new, at: core.clock.now())
  }
}
