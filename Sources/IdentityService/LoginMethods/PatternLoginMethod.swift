import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Signs in by a pattern or PIN on the device where it was enrolled. It is short, so it is worth nothing without that
/// device's key, waits come soon, and the tenth wrong one in a row is the last.
struct PatternLoginMethod: LoginMethod {
  static let method = SignInMethod.pattern

  private let core: IdentityCore

  init(_ core: IdentityCore) {
    self.core = core
  }

  func verify(
    _ credential: IdentityV1.PatternCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let pattern = try RequestFields.pattern(credential.pattern, "pattern.pattern")
    let proof = try PresentedKeyProof(credential.proof, "pattern.proof", for: .pattern, client: attempt.client, core)
    // Without the key nothing is tried, and nobody else's tries are used up.
    guard proof.holds else {
      try await core.hashing { () throws(PasswordHasherError) in
        try await core.passwords.verifyDummy(pattern.secret.exposed)
      }
      throw .invalidCredentials
    }
    try core.checkHashingRoom()
    let counted = try await core.countAttempt(
      "pattern \(proof.keyThumbprint)",
      account: nil,
      by: attempt.requester,
      under: .pattern
    )
    let found = try await core.stored { () throws(StorageError) in
      try await core.unlocks.tryPattern(proof.keyThumbprint)
    }
    let (attempts, unlocks, thumbprint) = (core.attempts, core.unlocks, proof.keyThumbprint)
    let giveBack = { @Sendable () async throws(StorageError) in
      try await attempts.notMade(counted)
      if found != nil { try await unlocks.patternNotTried(thumbprint) }
    }
    guard let found, let hash = found.unlock.secretHash else {
      try await core.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
        try await core.passwords.verifyDummy(pattern.secret.exposed)
      }
      throw .invalidCredentials
    }
    let matches = try await core.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
      try await core.passwords.verify(pattern.secret.exposed, against: hash)
    }
    guard matches else { throw .invalidCredentials }
    try await core.attemptSucceeded(counted)
    try await core.stored { () throws(StorageError) in try await core.unlocks.patternHeld(proof.keyThumbprint) }
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
