import GRPC
import LatchkeyModel
import LatchkeyProtos

extension GuestHandlers {
  /// Hands out a challenge. Writes nothing, so asking costs nobody but the caller.
  package func getChallenge(
    _ request: IdentityV1.GetChallengeRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetChallengeResponse {
    let client = try RequestFields.clientID(request.clientID)
    let key = try RequestFields.publicKey(request.deviceKey, "device_key")
    let now = core.clock.now()
    let bits = core.admission.workBits(for: context.peer, at: now)
    let challenge = core.challenges.make(client: client, keyThumbprint: key.thumbprint, workBits: bits, at: now)
    return IdentityV1.GetChallengeResponse(
      challenge: challenge.text,
      powBits: Int32(challenge.workBits),
      expiresIn: (challenge.expiry - now).components.seconds
    )
  }
}
