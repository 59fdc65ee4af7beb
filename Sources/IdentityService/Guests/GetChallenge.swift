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
    let now = clock.now()
    let (binding, bits) = try binding(request, context, at: now)
    let challenge = newGuests.challenges.make(client: client, keyThumbprint: binding, workBits: bits, at: now)
    return IdentityV1.GetChallengeResponse(
      challenge: challenge.text,
      powBits: Int32(challenge.workBits),
      expiresIn: (challenge.expiry - now).components.seconds
    )
  }

  /// What the challenge is bound to besides the client, and the work that it asks for.
  private func binding(
    _ request: IdentityV1.GetChallengeRequest, _ context: ServerContext, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> (String, workBits: Int) {
    switch request.purpose {
    case .unspecified, .deviceKey:
      let key = try RequestFields.keyPoint(request.deviceKey, "device_key")
      return (key.thumbprint, newGuests.admission.workBits(for: context.peer, at: now))
    case .idTokenNonce:
      guard request.deviceKey == nil else { throw .invalid("device_key", "goes with no nonce for an ID token") }
      // What costs work is the sign-in.
      return (PresentedIDToken.nonceBinding, 0)
    case .unrecognized: throw .invalid("purpose", "must be DEVICE_KEY or ID_TOKEN_NONCE")
    }
  }
}
