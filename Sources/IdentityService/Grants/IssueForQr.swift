import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GrantHandlers {
  /// Signs a new device in for a person who confirmed its code. A session of its own, with at most the scope of a
  /// screen unless more was asked for and confirmed.
  package func issueForQr(
    _ request: IdentityV1.IssueForQrRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.IssueForQrResponse {
    let scope = try RequestFields.scope(request.scope)
    let boundKey = try request.deviceKey.map { (jwk) throws(RPCError) in
      try RequestFields.publicKey(jwk, "device_key").thumbprint
    }
    let now = core.clock.now()
    let grant = QRGrant(
      qrSession: try RequestFields.foreignID(request.qrSessionID, "qr_session_id"),
      subject: try RequestFields.subjectID(request.sub, "sub"),
      confirmedBy: try RequestFields.sessionID(request.confirmedBySid, "confirmed_by_sid"),
      draft: SessionDraft(
        client: try RequestFields.clientID(request.clientID),
        method: .qr,
        label: try RequestFields.displayText(request.deviceLabel, "device_label"),
        platform: try RequestFields.displayText(request.platform, "platform"),
        scope: scope.isEmpty ? .screen : scope,
        boundKeyThumbprint: boundKey,
        lifetimes: core.lifetimes,
        at: now,
        random: core.random
      )
    )
    switch try await core.stored({ () throws(StorageError) in try await core.qrGrants.issue(grant) }) {
    case .issued(let session, let profile):
      return IdentityV1.IssueForQrResponse(
        tokens: try core.tokens.tokens(of: session, at: now),
        subject: CommonV1.Subject(session),
        profile: CommonV1.Profile(profile)
      )
    case .noAccount: throw .loginRequired
    case .confirmerGone:
      throw RPCError(
        .failedPrecondition, "the session that confirmed has ended or is another's", reason: "CONFIRMER_GONE")
    case .revoked:
      throw RPCError(.failedPrecondition, "what this code granted was revoked", reason: "QR_REVOKED")
    }
  }
}
