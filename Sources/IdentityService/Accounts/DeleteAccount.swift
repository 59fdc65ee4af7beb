import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AccountHandlers {
  /// The records are asked for at once and, where the migrator cannot be reached, until it can.
  package func deleteAccount(
    _ request: IdentityV1.DeleteAccountRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DeleteAccountResponse {
    let account = try context.callerSubject()
    guard try RequestFields.subjectID(request.sub, "sub") == account else {
      throw .invalid("sub", "must be the caller's own")
    }
    try await reauthentication.check(context, request.password)
    // Afterwards nobody knows where.
    let owner = try await notices.owner(of: account)
    let now = clock.now()
    let deletion = SubjectDeletion(
      subject: account,
      authority: .account(try context.callerSession()),
      address: context.peer.address,
      now: now,
      purgeDueAt: now + Limits.purgeHandover
    )
    switch try await removal.delete(deletion) {
    case .deleted(let ended):
      notices.tell(.accountDeleted, owner)
      return IdentityV1.DeleteAccountResponse(
        sessionsEnded: Int64(ended), recordsDeleted: await removal.purgeRecords(of: account))
    case .merging: throw .migrationRunning
    case .notFound, .notGuest, .notAccount, .callerEnded, .used: throw .sessionRevoked
    }
  }
}
