import Callers
import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Signs in by a pattern or PIN on the device where it was enrolled. It is short, so it is worth nothing without that
/// device's key, waits come soon, and the tenth wrong one in a row is the last.
struct PatternLoginMethod: LoginMethod, Deciding {
  static let method = SignInMethod.pattern

  let domain: IdentityDomain
  let challenges: ChallengeBook
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }

  func verify(
    _ credential: IdentityV1.PatternCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let presented = try RequestFields.pattern(credential.pattern, "pattern.pattern")
    let proof = try PresentedKeyProof(
      credential.proof,
      "pattern.proof",
      for: .pattern,
      client: attempt.client,
      challenges,
      at: clock.now()
    )
    // Without the key nothing is tried, and nobody else's tries are used up.
    try secrets.checkRoom()
    guard proof.holds else {
      try await secrets.hashing { place throws(PasswordHasherError) in
        try await secrets.passwords.verifyDummy(presented.secret.exposed, in: place)
      }
      throw .invalidCredentials
    }
    let leadsElsewhere = try await isOfAnother(proof.keyThumbprint, attempt)
    let counted = try await secrets.countAttempt(
      "pattern \(proof.keyThumbprint)",
      account: leadsElsewhere ? attempt.account : nil,
      by: attempt.requester,
      under: leadsElsewhere ? AttemptPolicy() : .pattern
    )
    let found: FoundUnlock? = leadsElsewhere ? nil : try await pattern(of: proof.keyThumbprint, for: counted)
    let giveBack = { @Sendable [domain] () async throws(StorageError) in
      // Each for itself: the other is given back although one could not be.
      if found != nil { _ = try? await domain.perform(SettlePattern(of: proof.keyThumbprint, .notTried)) }
      try await domain.perform(SettleAttempt(counted, .notMade))
    }
    guard let found, let hash = found.unlock.secretHash else {
      try await secrets.hashing(giveBack: giveBack) { place throws(PasswordHasherError) in
        try await secrets.passwords.verifyDummy(presented.secret.exposed, in: place)
      }
      throw .invalidCredentials
    }
    let matches = try await secrets.hashing(giveBack: giveBack) { place throws(PasswordHasherError) in
      try await secrets.passwords.verify(presented.secret.exposed, against: hash, in: place)
    }
    guard matches else { throw .invalidCredentials }
    try await secrets.attemptSucceeded(counted)
    _ = try await CallDeadline.outliving { () async throws(RPCError) in
      try await perform(SettlePattern(of: proof.keyThumbprint, .held))
    }
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: found.unlock.account,
        mask: found.mask,
        proof: .unlock(
          account: found.unlock.account, kind: .pattern, keyThumbprint: proof.keyThumbprint, mask: found.mask),
        challenge: proof.challenge
      ))
  }

  /// Whether only one account may be proven, and the device's pattern is none of its.
  private func isOfAnother(_ keyThumbprint: String, _ attempt: LoginAttempt) async throws(RPCError) -> Bool {
    guard let account = attempt.account else { return false }
    let own = try await look(ListUnlocks(of: account))
    return !own.contains { $0.kind == .pattern && $0.keyThumbprint == keyThumbprint }
  }

  /// The pattern of a device for one try.
  private func pattern(
    of keyThumbprint: String, for counted: CountedAttempt
  ) async throws(RPCError) -> FoundUnlock? {
    do throws(RPCError) {
      return try await perform(TryPattern(of: keyThumbprint))
    } catch {
      await secrets.notMade { [domain] () async throws(StorageError) in
        try await domain.perform(SettleAttempt(counted, .notMade))
      }
      throw error
    }
  }
}
