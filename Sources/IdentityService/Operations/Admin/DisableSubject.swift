import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AdminHandlers {
  /// Idempotent: sessions that began meanwhile end as well.
  package func disableSubject(
    _ request: IdentityV1.DisableSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DisableSubjectResponse {
    let id = try RequestFields.subjectID(request.sub, "sub")
    let detail = try detail("", reason: request.reason)
    let now = clock.now()
    let ended = try await stored { () throws(StorageError) in
      try await subjects.setDisabled(true, id, detail: detail, at: now)
    }
    guard let ended else { throw .subjectNotFound }
    return IdentityV1.DisableSubjectResponse(sessionsEnded: Int64(ended))
  }
}
