import Domain
import GRPC
import LatchkeyProtos

extension SessionHandlers {
  /// Ends one of the caller's own sessions. A session that is another's is as unknown as one that never was.
  package func revokeSession(
    _ request: IdentityV1.RevokeSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RevokeSessionResponse {
    let id = try RequestFields.sessionID(request.sid, "sid", in: cell)
    let caller = try context.callerSession()
    if id != caller { try callers.require(IdentityAccess.ownersWord, of: context) }
    let now = clock.now()
    switch try await perform(RevokeSession(id, by: caller, at: now)) {
    case .changed: return IdentityV1.RevokeSessionResponse(ended: true)
    case .already: return IdentityV1.RevokeSessionResponse(ended: false)
    case .notFound: throw .sessionNotFound
    case .unconfirmed: throw .sessionUnconfirmed
    case .callerEnded: throw .sessionRevoked
    }
  }
}
