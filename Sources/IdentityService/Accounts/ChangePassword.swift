import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AccountHandlers {
  package func changePassword(
    _ request: IdentityV1.ChangePasswordRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ChangePasswordResponse {
    let account = try context.callerSubject()
    _ = try RequestFields.presentedPassword(request.password, "password")
    let new = try RequestFields.newPassword(request.newPassword, "new_password")
    let endsOthers = try endsOthers(request.otherSessions)
    // Read before it is compared: what is compared is what is replaced.
    let current = try await reauthentication.passwordHash(of: account)
    try await reauthentication.reauthenticate(context, request.password)
    let ended = try await change(
      ChangePassword(
        authority: .session(try context.callerSession()),
        currentHash: current,
        newHash: try await evidence.secrets.hash(new.secret),
        endsOthers: endsOthers,
        notice: NoticeID(from: random),
        address: context.peer.address,
        now: clock.now()
      ))
    return IdentityV1.ChangePasswordResponse(sessionsEnded: ended)
  }
}
