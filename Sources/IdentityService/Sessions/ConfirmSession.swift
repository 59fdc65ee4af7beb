import Domain
import GRPC
import LatchkeyProtos

extension SessionHandlers {
  /// Says of a session that a code began that it is the caller's own. Only a confirmed session can say so.
  package func confirmSession(
    _ request: IdentityV1.ConfirmSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ConfirmSessionResponse {
    let id = try RequestFields.sessionID(request.sid, "sid", in: cell)
    let caller = try context.callerSession()
    let now = clock.now()
    switch try await perform(ConfirmSession(id, by: caller, at: now)) {
    case .changed, .already: return IdentityV1.ConfirmSessionResponse()
    case .notFound: throw .sessionNotFound
    case .unconfirmed: throw .sessionUnconfirmed
    case .callerEnded: throw .sessionRevoked
    }
  }
}
