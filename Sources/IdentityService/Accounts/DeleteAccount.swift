import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AccountHandlers {
  /// The records are asked for at once and, where the migrator cannot be reached, until it can.
  package func deleteAccount(
    _ request: IdentityV1.DeleteAccountRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DeleteAccountResponse {
    let account = try context.callerSubject()
    guard try RequestFields.subjectID(request.sub, "sub", in: cell) == account else {
      throw .invalid("sub", "must be the caller's own")
    }
    try await reauthentication.check(context, request.password)
    let now = clock.now()
    let deletion = DeleteSubject(
      subject: account,
      authority: .account(try context.callerSession(), NoticeID(from: random)),
      address: context.peer.address,
      now: now,
      purgeDueAt: now + Limits.purgeHandover
    )
    switch try await removal.perform(deletion) {
    case .deleted(let ended):
      notices.hurry()
      return IdentityV1.DeleteAccountResponse(
        sessionsEnded: Int64(ended), recordsDeleted: await removal.purgeRecords(of: account))
    case .merging: throw .migrationRunning
    case .notFound, .notGuest, .notAccount, .callerEnded, .used, .overtaken: throw .sessionRevoked
    }
  }
}
