import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension GuestHandlers {
  /// Deletes the caller. The records are asked for at once and, where the migrator cannot be reached, until it can.
  package func deleteGuest(
    _ request: IdentityV1.DeleteGuestRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DeleteGuestResponse {
    let subject = try context.callerSubject()
    let caller = try context.callerSession()
    if !request.sub.isEmpty, try RequestFields.subjectID(request.sub, "sub", in: cell) != subject {
      throw .invalid("sub", "must be the caller's own")
    }
    let now = clock.now()
    let deletion = DeleteSubject(
      subject: subject,
      authority: .guest(caller),
      address: context.peer.address,
      now: now,
      purgeDueAt: now + Limits.purgeHandover
    )
    switch try await removal.perform(deletion) {
    case .deleted:
      return IdentityV1.DeleteGuestResponse(recordsDeleted: await removal.purgeRecords(of: subject))
    case .notGuest:
      throw RPCError(.permissionDenied, "an account is not deleted here", reason: "GUEST_ONLY")
    case .merging: throw .migrationRunning
    case .notFound, .callerEnded, .used, .overtaken, .notAccount: throw .sessionRevoked
    }
  }
}
