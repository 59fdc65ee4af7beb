import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AdminHandlers {
  package func deleteSubject(
    _ request: IdentityV1.DeleteSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DeleteSubjectResponse {
    let id = try RequestFields.subjectID(request.sub, "sub", in: cell)
    let detail = try detail("by an administrator", reason: request.reason)
    let now = clock.now()
    let deletion = DeleteSubject(
      subject: id,
      authority: .administrator(detail: detail),
      address: context.peer.address,
      now: now,
      purgeDueAt: now + Limits.purgeHandover
    )
    switch try await removal.perform(deletion) {
    case .deleted(let ended):
      return IdentityV1.DeleteSubjectResponse(
        sessionsEnded: Int64(ended), recordsDeleted: await removal.purgeRecords(of: id))
    case .merging: throw .migrationRunning
    case .notFound, .notGuest, .notAccount, .callerEnded, .used, .overtaken: throw .subjectNotFound
    }
  }
}
