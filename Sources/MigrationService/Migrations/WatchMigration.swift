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
    let holder = try context.watchHolder(of: report.migration.target)
    guard let changes = core.signals.watch(id, by: holder) else { throw .tooManyWatches }
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
      if core.signals.isDraining { throw .watchEnded(isStopping: true) }
      try await core.waitForChange(changes, of: context)
      if context.isCancelled || Task.isCancelled { throw RPCError(.cancelled, "the call was cancelled") }
      guard core.signals.holdsPlace(changes) else { throw .watchEnded(isStopping: core.signals.isDraining) }
      let stored = try await core.look(FindMigration(id))
      guard let stored else { throw .migrationNotFound }
      report = stored
    }
  }
}
