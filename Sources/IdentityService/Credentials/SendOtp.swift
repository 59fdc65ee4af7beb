import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuthHandlers {
  /// Sends a code to an address or number, to sign in if an account has it; the answer is the same if none has (R25).
  package func sendOtp(
    _ request: IdentityV1.SendOtpRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.SendOtpResponse {
    // A code that is sent costs its caller a place among the network's and the address's.
    try await callers.proofs.withProvenKey(
      context, at: clock.now(), remembersIf: { _, _ in true }
    ) { provenKey throws(RPCError) in
      try await sendOtp(request, provenKey, context)
    }
  }

  private func sendOtp(
    _ request: IdentityV1.SendOtpRequest,
    _ provenKey: String?,
    _ context: ServerContext
  ) async throws(RPCError) -> IdentityV1.SendOtpResponse {
    let client = try RequestFields.clientID(request.clientID)
    let locale = try RequestFields.locale(request.locale)
    let identifier = try RequestFields.address(request.identifier, "identifier")
    let isForNewcomers = try Self.isForNewcomers(request.purpose)
    let work = try CallAdmission.Work(challenge: request.challenge, solution: request.powSolution)
    let now = clock.now()
    let guest = try callers.guestSession(of: request.guestToken, provenKey: provenKey, in: context, at: now)
    let asked = CodeRequest(
      identifier: identifier,
      purpose: .signIn,
      isForNewcomers: isForNewcomers,
      client: client,
      locale: locale,
      work: work,
      requester: Requester(guestSession: guest, provenKey: provenKey, source: context.source)
    )
    let handle = try await asked.send(by: methods.evidence.codes, from: context.peer)
    let policy = methods.evidence.codes.policy
    return IdentityV1.SendOtpResponse(
      expiresIn: policy.lifetime.secondsRoundedUp,
      resendAfter: policy.resendAfter.secondsRoundedUp,
      attemptsLeft: Int32(policy.attempts),
      handle: handle
    )
  }

  /// Whether the code is sent to an address that no account has.
  private static func isForNewcomers(_ purpose: IdentityV1.OtpPurpose) throws(RPCError) -> Bool {
    switch purpose {
    case .unspecified, .signIn: false
    case .proveAddress: true
    case .unrecognized: throw .invalid("purpose", "must be SIGN_IN or PROVE_ADDRESS")
    }
  }
}
