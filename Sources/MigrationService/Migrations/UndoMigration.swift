import Domain
import GRPC
import LatchkeyProtos
import Storage

extension MigrationHandlers {
  /// Has the workers take a migration back. One that is being taken back, or was, is left as it is: a repeated call does
  /// no harm.
  package func undoMigration(
    _ request: MigrationV1.UndoMigrationRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.UndoMigrationResponse {
    let report = try await readableMigration(request.migrationID, by: context.caller)
    let id = report.migration.id
    let now = core.clock.now()
    switch try await core.perform(UndoMigration(id, at: now)) {
    case .begun:
      core.logger.notice(
        "a migration is being taken back", metadata: ["migration": "\(id)", "account": "\(report.migration.target)"])
      core.signals.moved(id)
      core.signals.workArrived()
      return MigrationV1.UndoMigrationResponse(begun: true)
    case .already: return MigrationV1.UndoMigrationResponse(begun: false)
    case .notDone: throw .migrationNotDone
    case .expired: throw .undoExpired
    case .deleted: throw .subjectDeleted
    case .unknown: throw .migrationNotFound
    }
  }
}
