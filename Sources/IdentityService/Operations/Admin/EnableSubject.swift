import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AdminHandlers {
  package func enableSubject(
    _ request: IdentityV1.EnableSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.EnableSubjectResponse {
    let id = try RequestFields.subjectID(request.sub, "sub")
    let detail = try detail("", reason: request.reason)
    let now = clock.now()
    let known = try await stored { () throws(StorageError) in
      try await subjects.setDisabled(false, id, detail: detail, at: now)
    }
    guard known != nil else { throw .subjectNotFound }
    return IdentityV1.EnableSubjectResponse()
  }
}
