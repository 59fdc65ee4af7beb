import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension RecordHandlers {
  /// Removes what a deleted subject owned, in steps, so that others get their turns between them. From the first step
  /// on the subject can write nothing any more.
  package func purgeRecords(
    _ request: MigrationV1.PurgeRecordsRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.PurgeRecordsResponse {
    let subject = try RequestFields.subject(request.sub, "sub", in: core.random.cell)
    var deleted: Int64 = 0
    while true {
      if context.isCancelled || Task.isCancelled { throw RPCError(.cancelled, "the call was cancelled") }
      let outcome = try await core.perform(PurgeRecords(of: subject, limit: Limits.purgeRecords))
      let step = try outcome.value
      deleted += Int64(step.count)
      if step.isLast { break }
    }
    return MigrationV1.PurgeRecordsResponse(deleted: deleted)
  }
}
