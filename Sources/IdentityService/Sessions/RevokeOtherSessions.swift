import Domain
import GRPC
import LatchkeyProtos

extension SessionHandlers {
  /// Ends every session of the caller but the one that asks.
  package func revokeOtherSessions(
    _ request: IdentityV1.RevokeOtherSessionsRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RevokeOtherSessionsResponse {
    let logOut = LogOut(session: try context.callerSession(), reach: .others, nextGuest: nil, now: clock.now())
    switch try await perform(logOut) {
    case .loggedOut(let ended, _): return IdentityV1.RevokeOtherSessionsResponse(sessionsEnded: Int64(ended))
    case .unconfirmed: throw .sessionUnconfirmed
    case .sessionEnded, .noDevice: throw .sessionRevoked
    }
  }
}
