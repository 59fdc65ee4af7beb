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

  package func issue(_ session: QRSession, deadline: ContinuousClock.Instant?) async throws(RPCError) -> RedeemedGrant {
    guard let claim = session.claim, let grant = session.grant else {
      preconditionFailure("only what was confirmed is issued")
    }
    let request = IdentityV1.IssueForQrRequest(
      qrSessionID: session.id.description,
      sub: claim.subject.description,
      confirmedBySid: claim.sessionID.description,
      clientID: session.request.clientID.description,
      scope: grant.scope.description,
      deviceLabel: session.request.initiator.label?.description ?? "",
      platform: session.request.initiator.platform?.description ?? "",
      deviceKey: session.request.deviceKey.map(Self.jwk)
    )
    let response = try await client.issueForQr(request, options: options(deadline))
    guard let tokens = response.tokens else {
      throw RPCError(.internal, "the grant has no tokens")
    }
    return RedeemedGrant(tokens: tokens, subject: response.subject, profile: response.profile)
  }

  package func mask(
    of subject: SubjectID,
    deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> DisplayText? {
    let request = IdentityV1.DescribeSubjectRequest(sub: subject.description)
    return DisplayText(try await client.describeSubject(request, options: options(deadline)).mask)
  }

  package func revoke(_ session: QRSessionID, reason: String) async throws(RPCError) -> Int64 {
    let request = IdentityV1.RevokeForQrRequest(qrSessionID: session.description, reason: reason)
    return try await client.revokeForQr(request, options: CallOptions(timeout: Limits.grantTimeout)).sessionsEnded
  }

  private func options(_ deadline: ContinuousClock.Instant?) -> CallOptions {
    let left = deadline.map { max(.zero, ContinuousClock.now.duration(to: $0)) } ?? Limits.grantTimeout
    return CallOptions(timeout: min(left, Limits.grantTimeout))
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
