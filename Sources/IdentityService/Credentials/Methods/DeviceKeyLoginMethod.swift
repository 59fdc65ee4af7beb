import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Signs in by a key that was enrolled on a device, and that a person unlocks there with a finger or a face.
struct DeviceKeyLoginMethod: LoginMethod, Deciding {
  static let method = SignInMethod.deviceKey

  let domain: IdentityDomain
  let challenges: ChallengeBook
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }

  func verify(
    _ credential: IdentityV1.DeviceKeyCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let proof = try PresentedKeyProof(
      credential.proof,
      "device_key.proof",
      for: .unlock,
      client: attempt.client,
      challenges,
      at: clock.now()
    )
    let known = try await look(FindUnlock(byKey: proof.keyThumbprint))
    let found = known.flatMap { attempt.admits($0.unlock.account) ? $0 : nil }
    let counted = try await secrets.countAttempt(
      "unlock \(proof.keyThumbprint)",
      account: attempt.account ?? found?.unlock.account,
      by: attempt.requester
    )
    guard proof.holds, let found else { throw .invalidCredentials }
    // No guess at a secret, and their own key holds for anybody as often as they like: it does not begin the count of
    // wrong tries anew.
    await secrets.notMade(counted)
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: found.unlock.account,
        mask: found.mask,
        proof: .unlock(
          account: found.unlock.account,
          kind: .key,
          keyThumbprint: proof.keyThumbprint,
          mask: found.mask
        ),
        challenge: proof.challenge
      ))
  }
}
