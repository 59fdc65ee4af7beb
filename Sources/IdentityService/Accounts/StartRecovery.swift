import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AccountHandlers {
  /// The answer is the same whether an account has the address or not (R25).
  package func startRecovery(
    _ request: IdentityV1.StartRecoveryRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.StartRecoveryResponse {
    // A code that is sent costs its caller a place among the network's and the address's.
    try await callers.proofs.withProvenKey(
      context, at: clock.now(), remembersIf: { _, _ in true }
    ) { provenKey throws(RPCError) in
      try await startRecovery(request, provenKey, context)
    }
  }

  private func startRecovery(
    _ request: IdentityV1.StartRecoveryRequest,
    _ provenKey: String?,
    _ context: ServerContext
  ) async throws(RPCError) -> IdentityV1.StartRecoveryResponse {
    let now = clock.now()
    let guest = try callers.guestSession(of: request.guestToken, provenKey: provenKey, in: context, at: now)
    let asked = CodeRequest(
      identifier: try RequestFields.address(request.identifier, "identifier"),
      purpose: .recovery,
      isForNewcomers: false,
      client: try RequestFields.clientID(request.clientID),
      locale: try RequestFields.locale(request.locale),
      work: try CallAdmission.Work(challenge: request.challenge, solution: request.powSolution),
      requester: Requester(guestSession: guest, provenKey: provenKey, source: context.source)
    )
    let handle = try await asked.send(by: evidence.codes, from: context.peer)
    let policy = evidence.codes.policy
    return IdentityV1.StartRecoveryResponse(
      expiresIn: policy.lifetime.secondsRoundedUp,
      resendAfter: policy.resendAfter.secondsRoundedUp,
      attemptsLeft: Int32(policy.attempts),
      handle: handle
    )
  }
}
