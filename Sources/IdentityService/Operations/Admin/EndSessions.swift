import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AdminHandlers {
  /// Those of everybody end in steps, so that callers get their turns between them; a session that began after the call
  /// stays.
  package func endSessions(
    _ request: IdentityV1.EndSessionsRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.EndSessionsResponse {
    let begun = clock.now()
    switch request.whose {
    case .sub(let text):
      let id = try RequestFields.subjectID(text, "sub", in: cell)
      let detail = try detail("", reason: request.reason)
      let ended = try await perform(EndSessionsOf(id, detail: detail, at: begun))
      guard let ended else { throw .subjectNotFound }
      return IdentityV1.EndSessionsResponse(sessionsEnded: Int64(ended))
    case .everybody(true):
      let detail = try detail("ends everybody's sessions", reason: request.reason)
      try await record(detail, context)
      var count = 0
      while true {
        if context.isCancelled || Task.isCancelled { throw RPCError(.cancelled, "the call was cancelled") }
        let ended = try await perform(
          EndEverybodysSessions(begunUntil: begun, limit: Limits.sessionsEndedAtOnce, at: clock.now()))
        count += ended
        guard ended == Limits.sessionsEndedAtOnce else { break }
      }
      return IdentityV1.EndSessionsResponse(sessionsEnded: Int64(count))
    case .everybody(false), nil: throw .invalid("whose", "is missing: send sub, or everybody as true")
    }
  }
}
