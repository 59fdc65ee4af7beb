import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Asks the identity service by `GrantService`. The channel carries the service credential.
package struct IdentityGrantIssuer: QRGrantIssuer {
  private let client: IdentityV1.GrantServiceClient

  package init(channel: any RPCChannel) {
    client = IdentityV1.GrantServiceClient(channel: channel)
  }

  package func issue(
    _ session: QRSession, turn: Int64, deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> RedeemedGrant {
    guard let claim = session.claim, let grant = session.grant else {
      preconditionFailure("only what was confirmed is issued")
    }
    if session.request.purpose == .confirmAction { return try await confirmation(session, claim, grant, deadline) }
    let request = IdentityV1.IssueForQrRequest(
      qrSessionID: session.id.description,
      sub: claim.subject.description,
      confirmedBySid: claim.sessionID.description,
      clientID: session.request.clientID.description,
      scope: grant.scope.description,
      deviceLabel: session.request.initiator.label?.description ?? "",
      platform: session.request.initiator.platform?.description ?? "",
      deviceKey: session.request.deviceKey.map(Self.jwk),
      kind: Self.kind(session.request.purpose),
      confirmerAuthTime: grant.proven.map {
        GoogleProtobuf.Timestamp(millisecondsSinceEpoch: $0.millisecondsSinceEpoch)
      },
      turn: turn
    )
    let response = try await client.issueForQr(request, options: options(deadline))
    guard let tokens = response.tokens else {
      throw RPCError(.internal, "the grant has no tokens")
    }
    return RedeemedGrant(
      tokens: tokens, subject: response.subject, profile: response.profile,
      storageNamespace: response.storageNamespace)
  }

  private static func kind(_ purpose: QRPurpose) -> IdentityV1.QrGrantKind {
    switch purpose {
    case .login: .signIn
    case .bindDevice: .bindDevice
    case .transferGuest: .transfer
    case .confirmAction: preconditionFailure("an action is confirmed by SignConfirmation")
    }
  }

  private func confirmation(
    _ session: QRSession,
    _ claim: QRSession.Claim,
    _ grant: QRSession.Grant,
    _ deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> RedeemedGrant {
    guard let action = session.request.action, let proof = grant.proof else {
      throw RPCError(.internal, "the session has no signed action")
    }
    let digest = Base64URL.encode(SHA256Hash.hash(action.message(client: session.request.clientID)))
    let confirmed = GoogleProtobuf.Timestamp(millisecondsSinceEpoch: grant.confirmed.millisecondsSinceEpoch)
    let request = IdentityV1.SignConfirmationRequest(
      qrSessionID: session.id.description,
      sub: claim.subject.description,
      confirmedBySid: claim.sessionID.description,
      clientID: session.request.clientID.description,
      confirmedAt: confirmed,
      actionText: action.text.description,
      amount: action.amount?.decimal ?? "",
      currency: action.amount?.currency ?? "",
      reference: action.reference,
      actionDigest: digest,
      deviceKey: Self.jwk(proof.key),
      signature: proof.signature,
      ticketDigest: Base64URL.encode(proof.ticket.bytes)
    )
    let jws = try await client.signConfirmation(request, options: options(deadline)).jws
    return RedeemedGrant(
      confirmation: QRV1.Confirmation(jws: jws, confirmedAt: confirmed, actionDigest: digest)
    )
  }

  package func describe(
    _ subject: SubjectID,
    session: SessionID,
    deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> SubjectDescription {
    let request = IdentityV1.DescribeSubjectRequest(sub: subject.description, sid: session.description)
    let answer = try await client.describeSubject(request, options: options(deadline))
    return SubjectDescription(
      mask: DisplayText(answer.mask),
      deviceKeyThumbprint: answer.deviceKeyThumbprint.isEmpty ? nil : answer.deviceKeyThumbprint,
      isLetIn: answer.deviceKeyLetIn
    )
  }

  package func revoke(_ session: QRSessionID, reason: String) async throws(RPCError) -> Int64 {
    let request = IdentityV1.RevokeForQrRequest(qrSessionID: session.description, reason: reason)
    return try await client.revokeForQr(request, options: CallOptions(timeout: Limits.grantTimeout)).sessionsEnded
  }

  private func options(_ deadline: ContinuousClock.Instant?) -> CallOptions {
    // A tenth is left for telling the caller how it ended.
    let left = deadline.map { max(.zero, ContinuousClock.now.duration(to: $0)) * 9 / 10 }
    return CallOptions(timeout: left ?? Limits.grantTimeout)
  }

  private static func jwk(_ key: [UInt8]) -> CommonV1.EcPublicJwk {
    CommonV1.EcPublicJwk(
      kty: "EC",
      crv: "P-256",
      x: Base64URL.encode(Array(key.prefix(32))),
      y: Base64URL.encode(Array(key.dropFirst(32)))
    )
  }
}
