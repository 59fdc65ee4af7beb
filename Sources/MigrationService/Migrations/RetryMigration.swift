import Domain
import GRPC
import LatchkeyProtos
import Storage

extension MigrationHandlers {
  /// Begins a migration again that failed. One that is under way or done is left as it is: a repeated call does no harm.
  package func retryMigration(
    _ request: MigrationV1.RetryMigrationRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.RetryMigrationResponse {
    let report = try await readableMigration(request.migrationID, by: context.caller)
    let id = report.migration.id
    switch try await core.perform(RetryMigration(id)) {
    case .retried:
      core.logger.notice("a failed migration was begun again", metadata: ["migration": "\(id)"])
      core.signals.workArrived()
      return MigrationV1.RetryMigrationResponse(retried: true)
    case .notFailed: return MigrationV1.RetryMigrationResponse(retried: false)
    case .stale: throw .stalePlan
    case .migrating: throw .subjectMigrating
    case .migrated: throw .subjectMigrated
    case .unknown: throw .migrationNotFound
    }
  }
}
