import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AdminHandlers {
  package func enableSubject(
    _ request: IdentityV1.EnableSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.EnableSubjectResponse {
    let id = try RequestFields.subjectID(request.sub, "sub", in: cell)
    let detail = try detail("", reason: request.reason)
    let known = try await perform(SetDisabled(false, id, detail: detail, at: clock.now()))
    guard known != nil else { throw .subjectNotFound }
    return IdentityV1.EnableSubjectResponse()
  }
}
