import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// A signature over a challenge of ours, by a key that the caller named.
struct PresentedKeyProof: Sendable {
  let keyThumbprint: String
  let challenge: UsedChallenge
  /// Whether the signature is the key's.
  let holds: Bool

  /// Errors: `INVALID_ARGUMENT` for what is no proof at all, `CHALLENGE_INVALID` for a challenge that is not this key's,
  /// `CHALLENGE_REQUIRED` for work that was not done. A wrong signature is the caller's to answer.
  ///
  /// - Parameter field: where the proof stands in the request.
  init(
    _ proof: IdentityV1.KeyProof?,
    _ field: String,
    for purpose: DeviceProof.UnlockPurpose,
    client: ClientID,
    _ challenges: ChallengeBook,
    at now: LatchkeyModel.Timestamp
  ) throws(RPCError) {
    guard let proof else { throw .invalid(field, "is missing") }
    let key = try RequestFields.publicKey(proof.publicKey, "\(field).public_key")
    guard !proof.challenge.isEmpty else { throw .invalid("\(field).challenge", "is missing") }
    guard proof.signature.count == 64 else { throw .invalid("\(field).signature", "must be 64 bytes, r then s") }
    guard proof.powSolution.count <= Limits.powSolutionBytes else {
      throw .invalid("\(field).pow_solution", "must be at most \(Limits.powSolutionBytes) bytes")
    }
    keyThumbprint = key.thumbprint
    guard
      let challenge = challenges.recognise(
        proof.challenge,
        client: client,
        keyThumbprint: keyThumbprint,
        at: now
      )
    else { throw .challengeInvalid }
    guard ProofOfWork.holds(proof.powSolution, for: challenge) else { throw .workRequired(bits: challenge.workBits) }
    self.challenge = UsedChallenge(hash: challenge.hash, expiry: challenge.expiry)
    holds = key.verify(
      signature: proof.signature,
      message: DeviceProof.message(purpose, client: client, challenge: proof.challenge)
    )
  }
}
