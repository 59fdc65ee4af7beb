import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension MigrationHandlers {
  /// An account's own, or those of the account that a service names.
  package func listMigrations(
    _ request: MigrationV1.ListMigrationsRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.ListMigrationsResponse {
    let target: SubjectID
    if case .subject(let caller) = context.caller, request.targetSub.isEmpty {
      target = try caller.id
    } else {
      target = try RequestFields.subject(request.targetSub, "target_sub", in: core.random.cell)
      guard Self.isParty(context.caller, to: target) else {
        throw RPCError(.permissionDenied, "target_sub: is another account", reason: "NOT_THE_TARGET")
      }
    }
    let count = try RequestFields.pageSize(request.pageSize)
    let position = try RequestFields.pagePlace(request.pageToken) { MigrationPosition(pageToken: $0) }
    let page = try await core.look(ListMigrations(into: target, beyond: position, count: count))
    let last = page.hasMore ? page.migrations.last : nil
    return MigrationV1.ListMigrationsResponse(
      migrations: page.migrations.map { MigrationV1.Migration($0) },
      nextPageToken: last.map { MigrationPosition(createdAt: $0.createdAt, id: $0.id).pageToken } ?? "")
  }
}
