import Domain
import GRPC
import LatchkeyProtos

extension GrantHandlers {
  /// The moment at which a guest's data is the account's: the guest's sessions end and its sub resolves to the account.
  /// Idempotent; the migrator repeats it until it hears an answer. A migration that was taken back is refused.
  package func completeMigration(
    _ request: IdentityV1.CompleteMigrationRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.CompleteMigrationResponse {
    let migration = try RequestFields.foreignID(request.migrationID, "migration_id")
    let guest = try RequestFields.subjectID(request.guestSub, "guest_sub", in: cell)
    let target = try RequestFields.subjectID(request.targetSub, "target_sub", in: cell)
    switch try await perform(CompleteMerge(migration, of: guest, into: target, at: clock.now())) {
    case .completed(let ended):
      logger.notice(
        "a guest became part of an account",
        metadata: [
          "migration": "\(migration)", "guest": "\(guest)", "account": "\(target)", "sessions_ended": "\(ended)",
        ])
    case .already: break
    case .unknownGuest: throw RPCError(.notFound, "guest_sub: no such guest", reason: "GUEST_NOT_FOUND")
    case .unknownTarget: throw RPCError(.notFound, "target_sub: no such account", reason: "ACCOUNT_NOT_FOUND")
    case .recalled:
      logger.warning(
        "a merge that was taken back was asked for again", metadata: ["migration": "\(migration)", "guest": "\(guest)"])
      throw RPCError(
        .failedPrecondition, "the migration was taken back", reason: "MIGRATION_RECALLED")
    case .refused:
      throw RPCError(
        .failedPrecondition, "the guest became an account or went into another one", reason: "GUEST_GONE")
    }
    return IdentityV1.CompleteMigrationResponse()
  }
}
