import GRPC
import LatchkeyProtos
import Storage

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
      PasswordChange(
        authority: .session(try context.callerSession()),
        currentHash: nil,
        newHash: try await evidence.secrets.hash(new.secret),
        endsOthers: endsOthers,
        address: context.peer.address,
        now: clock.now()
      ),
      telling: .passwordSet)
    return IdentityV1.SetPasswordResponse(sessionsEnded: ended)
  }
}
