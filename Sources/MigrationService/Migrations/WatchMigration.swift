import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension MigrationHandlers {
  /// The state now, then every change that is still news when the client has taken the one before, and the last state.
  package func watchMigration(
    _ request: MigrationV1.WatchMigrationRequest,
    responses: ResponseWriter<MigrationV1.WatchMigrationResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    var report = try await readableMigration(request.migrationID, by: context.caller)
    let id = report.migration.id
    guard let changes = core.signals.watch(id) else {
      throw RPCError(.resourceExhausted, "too many watches", reason: "OVERLOADED", retryAfter: .seconds(5))
    }
    defer { core.signals.unwatch(changes) }
    var sent: (Migration, String?)?
    while true {
      let news = (report.migration, core.signals.hindrance(of: report))
      if sent.map({ $0 != news }) ?? true {
        let message = MigrationV1.Migration(report, hindrance: news.1)
        try await responses.write(MigrationV1.WatchMigrationResponse(migration: message))
        sent = news
      }
      if report.migration.isFinished { return }
      if core.signals.isDraining {
        throw RPCError(.unavailable, "the service is stopping; watch again", retryAfter: .seconds(1))
      }
      try await core.waitForChange(changes, of: context)
      if context.isCancelled || Task.isCancelled { throw RPCError(.cancelled, "the call was cancelled") }
      let stored = try await core.look(FindMigration(id))
      guard let stored else { throw .migrationNotFound }
      report = stored
    }
  }
}
