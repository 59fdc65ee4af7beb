import Domain
import GRPC
import LatchkeyProtos

extension GrantHandlers {
  /// A migration is taken back. The guest has no session yet: its device gets one by starting as a guest, and finds it by
  /// its key.
  package func restoreGuest(
    _ request: IdentityV1.RestoreGuestRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RestoreGuestResponse {
    let migration = try RequestFields.foreignID(request.migrationID, "migration_id")
    let guest = try RequestFields.subjectID(request.guestSub, "guest_sub", in: cell)
    let target = try RequestFields.subjectID(request.targetSub, "target_sub", in: cell)
    switch try await perform(RestoreGuest(migration, of: guest, from: target, at: clock.now())) {
    case .restored:
      logger.notice(
        "a merge was taken back",
        metadata: ["migration": "\(migration)", "guest": "\(guest)", "account": "\(target)"])
    case .already: break
    case .unknownGuest: throw RPCError(.notFound, "guest_sub: no such guest", reason: "GUEST_NOT_FOUND")
    case .refused:
      throw RPCError(.failedPrecondition, "guest_sub: is not part of that account", reason: "GUEST_GONE")
    case .replaced:
      throw RPCError(
        .failedPrecondition, "the guest's device has another guest by now, or is gone", reason: "GUEST_REPLACED")
    }
    return IdentityV1.RestoreGuestResponse()
  }
}
