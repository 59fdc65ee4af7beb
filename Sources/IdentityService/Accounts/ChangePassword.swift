import GRPC
import LatchkeyProtos
import Storage

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
      PasswordChange(
        authority: .session(try context.callerSession()),
        currentHash: current,
        newHash: try await evidence.secrets.hash(new.secret),
        endsOthers: endsOthers,
        address: context.peer.address,
        now: clock.now()
      ),
      telling: .passwordChanged)
    return IdentityV1.ChangePasswordResponse(sessionsEnded: ended)
  }
}
