import GRPC
import LatchkeyProtos
import ServiceRuntime

extension MigrationHandlers {
  package func getMigration(
    _ request: MigrationV1.GetMigrationRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.GetMigrationResponse {
    let report = try await readableMigration(request.migrationID, by: context.caller)
    return MigrationV1.GetMigrationResponse(
      migration: MigrationV1.Migration(report, hindrance: core.signals.hindrance(of: report)))
  }
}
