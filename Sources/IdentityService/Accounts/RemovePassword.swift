import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AccountHandlers {
  package func removePassword(
    _ request: IdentityV1.RemovePasswordRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RemovePasswordResponse {
    let account = try context.callerSubject()
    _ = try RequestFields.presentedPassword(request.password, "password")
    let endsOthers = try endsOthers(request.otherSessions)
    let current = try await reauthentication.passwordHash(of: account)
    try await reauthentication.reauthenticate(context, request.password)
    let ended = try await change(
      ChangePassword(
        authority: .session(try context.callerSession()),
        currentHash: current,
        newHash: nil,
        endsOthers: endsOthers,
        notice: NoticeID(from: random),
        address: context.peer.address,
        now: clock.now()
      ))
    return IdentityV1.RemovePasswordResponse(sessionsEnded: ended)
  }
}
