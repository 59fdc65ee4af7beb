import Domain
import GRPC
import LatchkeyProtos

extension GrantHandlers {
  /// Lets a guest go whose data will not move, and tells the account's open watches.
  package func failMigration(
    _ request: IdentityV1.FailMigrationRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.FailMigrationResponse {
    let migration = try RequestFields.foreignID(request.migrationID, "migration_id")
    let guest = try RequestFields.subjectID(request.guestSub, "guest_sub", in: cell)
    let target = try RequestFields.subjectID(request.targetSub, "target_sub", in: cell)
    let key = request.idempotencyKey.isEmpty ? nil : request.idempotencyKey
    // Another service's words are cut to what the log may hold.
    let reason = String(request.reason.prefix(Limits.foreignReasonCharacters))
    let wasOpen = try await perform(
      FailMerge(migration, of: guest, into: target, startedWith: key, because: reason, at: clock.now()))
    if wasOpen {
      logger.error(
        "a guest's data did not make it into an account",
        metadata: ["migration": "\(migration)", "guest": "\(guest)", "account": "\(target)", "cause": "\(reason)"])
    }
    return IdentityV1.FailMigrationResponse()
  }
}
