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
    try await core.proofs.withProvenKey(context, at: core.clock.now()) { provenKey throws(RPCError) in
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
    let now = core.clock.now()
    let guest = try guestSession(of: request.guestToken, provenKey: provenKey, at: now)
    guard !core.courier.isFailing(identifier.kind) else { throw .codeNotDelivered }
    // Bound to the identifier, to which few codes are sent: presented again, a solution is worth nothing more.
    try core.codeSends.admit(
      work,
      about: Array(identifier.canonical.utf8),
      client: client,
      from: context.peer,
      at: now
    )

    let policy = core.codePolicy
    let text = core.codes.make(digits: policy.digits)
    let handle = core.codes.makeHandle()
    let code = core.codes.hashed(text, for: identifier, handle: handle)
    let known = try await core.stored { () throws(StorageError) in try await core.accounts.account(for: identifier) }
    let account = known?.isProven == true ? known?.subject : nil
    let requester = Requester(guestSession: guest, provenKey: provenKey, source: context.source)
    let issue = try await core.stored { () throws(StorageError) in
      try await core.oneTimeCodes.replace(code, for: account, by: requester, under: policy, at: now)
    }
    if case .wait(let wait) = issue {
      throw RPCError(
        .resourceExhausted,
        "a code was sent already; wait before the next",
        reason: "RESEND_TOO_SOON",
        retryAfter: wait
      )
    }
    let message = CodeMessage(
      identifier: identifier,
      code: RedactedSecret(text),
      locale: locale,
      lifetime: policy.lifetime
    )
    let isSent = account != nil || isForNewcomers
    guard core.courier.take(isSent ? message : nil, code, to: identifier.kind, from: context.source) else {
      throw .codeNotDelivered
    }
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
