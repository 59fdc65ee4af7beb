import Cryptography
import Domain
import GRPC
import LatchkeyModel
import Storage

/// What is common to the methods by which an identifier and a secret sign in.
struct AccountSecret: Deciding {
  let domain: IdentityDomain
  let secrets: SecretChecks
  let method: SignInMethod
  let identifier: AccountIdentifier
  let secret: RedactedSecret

  var surroundings: Surroundings { secrets.surroundings }

  func verify(_ attempt: LoginAttempt) async throws(RPCError) -> VerifiedLogin {
    try secrets.checkRoom()
    let known = try await look(FindAccount(for: identifier))
    let found = known.flatMap { attempt.admits($0.subject) ? $0 : nil }
    // Counted before the secret is looked at, for accounts that do not exist as well: guesses at the same time count
    // like any others, and a wait tells nothing about which accounts there are.
    let counted = try await secrets.countAttempt(
      "\(identifier.kind.rawValue) \(identifier.canonical)",
      account: attempt.account ?? found?.subject,
      by: attempt.requester
    )
    let giveBack = { @Sendable [domain] () async throws(StorageError) in
      try await domain.perform(SettleAttempt(counted, .notMade))
    }
    guard let found, let hash = found.passwordHash else {
      // As long as a real check takes, so that time does not tell which accounts exist (R25).
      try await secrets.hashing(giveBack: giveBack) { place throws(PasswordHasherError) in
        try await secrets.passwords.verifyDummy(secret.exposed, in: place)
      }
      throw .invalidCredentials
    }
    let matches = try await secrets.hashing(giveBack: giveBack) { place throws(PasswordHasherError) in
      try await secrets.passwords.verify(secret.exposed, against: hash, in: place)
    }
    guard matches else { throw .invalidCredentials }
    return VerifiedLogin(
      method: method,
      account: found.subject,
      mask: identifier.mask,
      proof: .password(account: found.subject, identifier: identifier, hash: hash),
      counted: counted,
      afterwards: { await strengthen(hash) }
    )
  }

  /// Stores a hash at today's cost when the old one was cheaper. Failing changes nothing: the next sign-in tries again.
  private func strengthen(_ old: String) async {
    guard secrets.passwords.needsRehash(old), let new = try? await secrets.hash(secret) else { return }
    _ = try? await domain.perform(StrengthenSecret(of: identifier, from: old, to: new, at: clock.now()))
  }
}
