import Domain
import GRPC
import LatchkeyProtos

extension GrantHandlers {
  /// Ends everything that was issued from one code, and lets nothing more be issued from it.
  package func revokeForQr(
    _ request: IdentityV1.RevokeForQrRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RevokeForQrResponse {
    let qrSession = try RequestFields.foreignID(request.qrSessionID, "qr_session_id")
    let reason = try RequestFields.displayText(request.reason, "reason")
    let now = clock.now()
    let ended = try await perform(RevokeCode(qrSession, at: now))
    logger.notice(
      "what a QR session granted was revoked",
      metadata: ["qr_session": "\(qrSession)", "ended": "\(ended)", "reason": "\(reason?.description ?? "")"])
    return IdentityV1.RevokeForQrResponse(sessionsEnded: Int64(ended))
  }
}
