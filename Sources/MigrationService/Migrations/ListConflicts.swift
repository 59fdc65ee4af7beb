import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension MigrationHandlers {
  /// A page ends early when its values become large; only an empty `next_page_token` says that it was the last.
  package func listConflicts(
    _ request: MigrationV1.ListConflictsRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.ListConflictsResponse {
    let id = try await readableMigration(request.migrationID, by: context.caller).migration.id
    let count = try RequestFields.pageSize(request.pageSize)
    let place = try RequestFields.pagePlace(request.pageToken) { RecordName(pageToken: $0) }
    let page = try await core.look(
      ListConflicts(of: id, beyond: place, count: count, bytes: Limits.pageBytes))
    return MigrationV1.ListConflictsResponse(
      conflicts: page.conflicts.map { MigrationV1.Conflict($0) },
      nextPageToken: page.hasMore ? page.conflicts.last?.name.pageToken ?? "" : "")
  }
}
