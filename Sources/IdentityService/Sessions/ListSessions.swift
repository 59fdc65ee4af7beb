import Domain
import GRPC
import LatchkeyProtos

extension SessionHandlers {
  /// The caller's live sessions, the newest first, at most `Limits.listedSessions`.
  package func listSessions(
    _ request: IdentityV1.ListSessionsRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ListSessionsResponse {
    let caller = try context.callerSession()
    let subject = try context.callerSubject()
    let sessions = try await look(LiveSessions(of: subject, at: clock.now(), limit: Limits.listedSessions))
    return IdentityV1.ListSessionsResponse(sessions: sessions.map { Self.message($0, for: caller) })
  }
}
