import GRPC
import LatchkeyProtos
import Storage

extension AccountHandlers {
  package func getProfile(
    _ request: IdentityV1.GetProfileRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetProfileResponse {
    let account = try context.callerSubject()
    let subject = try await stored { () throws(StorageError) in try await accounts.subject(account) }
    guard let subject else { throw .sessionRevoked }
    return IdentityV1.GetProfileResponse(
      subject: CommonV1.Subject(sub: account.description, isGuest: false),
      profile: CommonV1.Profile(subject.profile),
      hasPassword: try await reauthentication.passwordHash(of: account) != nil,
      createdAt: GoogleProtobuf.Timestamp(subject.createdAt)
    )
  }
}
