import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Signs in by a pattern or PIN on the device where it was enrolled. It is short, so it is worth nothing without that
/// device's key, waits come soon, and the tenth wrong one in a row is the last.
struct PatternLoginMethod: LoginMethod, Surrounded {
  static let method = SignInMethod.pattern

  let unlocks: any UnlockStore
  let challenges: ChallengeBook
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }

  func verify(
    _ credential: IdentityV1.PatternCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let pattern = try RequestFields.pattern(credential.pattern, "pattern.pattern")
    let proof = try PresentedKeyProof(
      credential.proof,
      "pattern.proof",
      for: .pattern,
      client: attempt.client,
      challenges,
      at: clock.now()
    )
    // Without the key nothing is tried, and nobody else's tries are used up.
    guard proof.holds else {
      try await secrets.hashing { () throws(PasswordHasherError) in
        try await secrets.passwords.verifyDummy(pattern.secret.exposed)
      }
      throw .invalidCredentials
    }
    try secrets.checkHashingRoom()
    let counted = try await secrets.countAttempt(
      "pattern \(proof.keyThumbprint)",
      account: nil,
      by: attempt.requester,
      under: .pattern
    )
    let found = try await stored { () throws(StorageError) in
      try await unlocks.tryPattern(proof.keyThumbprint)
    }
    let giveBack = { @Sendable [secrets, unlocks] () async throws(StorageError) in
      try await secrets.attempts.notMade(counted)
      if found != nil { try await unlocks.patternNotTried(proof.keyThumbprint) }
    }
    guard let found, let hash = found.unlock.secretHash else {
      try await secrets.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
        try await secrets.passwords.verifyDummy(pattern.secret.exposed)
      }
      throw .invalidCredentials
    }
    let matches = try await secrets.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
      try await secrets.passwords.verify(pattern.secret.exposed, against: hash)
    }
    guard matches else { throw .invalidCredentials }
    try await secrets.attemptSucceeded(counted)
    try await stored { () throws(StorageError) in try await unlocks.patternHeld(proof.keyThumbprint) }
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: found.unlock.account,
        mask: found.mask,
        proof: .unlock(
          account: found.unlock.account,
          kind: .pattern,
          keyThumbprint: proof.keyThumbprint,
          mask: found.mask
        ),
        challenge: proof.challenge
      ))
  }
}
