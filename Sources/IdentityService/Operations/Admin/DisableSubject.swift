import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AdminHandlers {
  /// Idempotent: sessions that began meanwhile end as well.
  package func disableSubject(
    _ request: IdentityV1.DisableSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DisableSubjectResponse {
    let id = try RequestFields.subjectID(request.sub, "sub", in: cell)
    let detail = try detail("", reason: request.reason)
    let ended = try await perform(SetDisabled(true, id, detail: detail, at: clock.now()))
    guard let ended else { throw .subjectNotFound }
    return IdentityV1.DisableSubjectResponse(sessionsEnded: Int64(ended))
  }
}
