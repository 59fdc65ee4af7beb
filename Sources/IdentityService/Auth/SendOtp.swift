import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuthHandlers {
  /// Sends a code to an address or number, if an account has it; the answer is the same if none has (R25).
  package func sendOtp(
    _ request: IdentityV1.SendOtpRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.SendOtpResponse {
    let client = try RequestFields.clientID(request.clientID)
    let locale = try RequestFields.locale(request.locale)
    let identifier = try RequestFields.identifier(request.identifier, "identifier")
    if case .userName = identifier {
      throw .invalid("identifier", "must be an e-mail address or a phone number: nothing can be sent to a user name")
    }
    guard request.powSolution.count <= Limits.powSolutionBytes else {
      throw .invalid("pow_solution", "must be at most \(Limits.powSolutionBytes) bytes")
    }
    let now = core.clock.now()
    guard !core.courier.isFailing else { throw .codeNotDelivered }
    try requireWork(request, client, identifier, context.peer, at: now)

    let policy = core.codePolicy
    let text = core.codes.make(digits: policy.digits)
    let code = core.codes.hashed(text, for: identifier)
    let issue = try await core.stored { () throws(StorageError) in
      try await core.oneTimeCodes.replace(code, under: policy, at: now)
    }
    if case .wait(let wait) = issue {
      throw RPCError(
        .resourceExhausted, "a code was sent already; wait before the next", reason: "RESEND_TOO_SOON",
        retryAfter: wait)
    }
    let account = try await core.stored { () throws(StorageError) in try await core.accounts.account(for: identifier) }
    let message = CodeMessage(
      identifier: identifier, code: RedactedSecret(text), locale: locale, lifetime: policy.lifetime)
    guard core.courier.take(account == nil ? nil : message) else { throw .codeNotDelivered }
    return IdentityV1.SendOtpResponse(
      expiresIn: policy.lifetime.secondsRoundedUp,
      resendAfter: policy.resendAfter.secondsRoundedUp,
      attemptsLeft: Int32(policy.attempts)
    )
  }

  /// A network that asks for many codes does work for each. Nobody is turned away for the address alone.
  private func requireWork(
    _ request: IdentityV1.SendOtpRequest, _ client: ClientID, _ identifier: AccountIdentifier, _ peer: Peer,
    at now: LatchkeyModel.Timestamp
  ) throws(RPCError) {
    // Bound to the identifier, to which few codes are sent: presented again, a solution is worth nothing more.
    let purpose = "otp \(identifier.canonical)"
    if !request.challenge.isEmpty,
      let challenge = core.challenges.recognise(request.challenge, client: client, keyThumbprint: purpose, at: now),
      challenge.workBits > 0, ProofOfWork.holds(request.powSolution, for: challenge)
    {
      return
    }
    guard core.codeSends.excess(from: peer, at: now) > 0 else { return }
    let challenge = core.challenges.make(
      client: client, keyThumbprint: purpose, workBits: Limits.leastWorkBits, at: now)
    var error = RPCError.workRequired(bits: challenge.workBits)
    error.details.info.append(RPCError.KeyValue("challenge", challenge.text))
    throw error
  }
}
