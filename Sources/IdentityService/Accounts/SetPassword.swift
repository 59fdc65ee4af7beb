import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AccountHandlers {
  /// A session that somebody else got hold of must not become the way in: the table asks for the owner's recent proof.
  package func setPassword(
    _ request: IdentityV1.SetPasswordRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.SetPasswordResponse {
    let account = try context.callerSubject()
    let new = try RequestFields.newPassword(request.newPassword, "new_password")
    let endsOthers = try endsOthers(request.otherSessions)
    guard try await reauthentication.passwordHash(of: account) == nil else { throw .passwordSet }
    let ended = try await change(
      ChangePassword(
        authority: .session(try context.callerSession()),
        currentHash: nil,
        newHash: try await evidence.secrets.hash(new.secret),
        endsOthers: endsOthers,
        notice: NoticeID(from: random),
        address: context.peer.address,
        now: clock.now()
      ))
    return IdentityV1.SetPasswordResponse(sessionsEnded: ended)
  }
}
