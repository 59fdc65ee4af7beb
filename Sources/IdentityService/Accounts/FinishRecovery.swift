import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AccountHandlers {
  /// Needs no session, and none helps: who holds the verified address is the owner.
  package func finishRecovery(
    _ request: IdentityV1.FinishRecoveryRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.FinishRecoveryResponse {
    // It spends a code.
    try await callers.proofs.withProvenKey(
      context, at: clock.now(), remembersIf: { _, _ in true }
    ) { provenKey throws(RPCError) in
      try await finishRecovery(request, provenKey, context)
    }
  }

  private func finishRecovery(
    _ request: IdentityV1.FinishRecoveryRequest,
    _ provenKey: String?,
    _ context: ServerContext
  ) async throws(RPCError) -> IdentityV1.FinishRecoveryResponse {
    guard let otp = request.otp else { throw .invalid("otp", "is missing") }
    let new = try RequestFields.newPassword(request.newPassword, "new_password")
    let endsOthers = try endsOthers(request.otherSessions)
    let requester = Requester(provenKey: provenKey, source: context.source)
    let shown = try await PresentedCode(
      otp, "otp", evidence.codes, by: requester, for: .recovery, from: context.peer)
    let ended = try await evidence.secrets.settling(shown.counted) { () async throws(RPCError) -> Int64 in
      guard let account = shown.account else { throw RPCError.codeVoid }
      // Before the work of a hash, for the code stays as good as it is.
      if try await look(FindSubject(account))?.isDisabled == true { throw RPCError.subjectDisabled }
      return try await change(
        ChangePassword(
          authority: .code(account, shown.identifier, shown.code),
          currentHash: nil,
          newHash: try await evidence.secrets.hash(new.secret),
          endsOthers: endsOthers,
          notice: NoticeID(from: random),
          address: context.peer.address,
          now: clock.now()
        ))
    }
    return IdentityV1.FinishRecoveryResponse(sessionsEnded: ended)
  }
}
