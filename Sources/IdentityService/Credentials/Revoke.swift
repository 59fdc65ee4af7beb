import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AuthHandlers {
  /// Ends the session of a token (RFC 7009). A token that names no live session is as revoked as it can be.
  package func revoke(
    _ request: IdentityV1.RevokeRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RevokeResponse {
    let text = try RequestFields.token(request.token, "token")
    guard let session = try await tokenSession(text)?.session else { return IdentityV1.RevokeResponse() }
    let now = clock.now()
    _ = try await perform(EndSession(session.id, because: .revoked, at: now))
    return IdentityV1.RevokeResponse()
  }
}
