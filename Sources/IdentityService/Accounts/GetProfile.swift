import Domain
import GRPC
import LatchkeyProtos

extension AccountHandlers {
  package func getProfile(
    _ request: IdentityV1.GetProfileRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetProfileResponse {
    let account = try context.callerSubject()
    guard let subject = try await look(FindSubject(account)) else { throw .sessionRevoked }
    return IdentityV1.GetProfileResponse(
      subject: CommonV1.Subject(sub: account.description, isGuest: false),
      profile: CommonV1.Profile(subject.profile),
      hasPassword: try await reauthentication.passwordHash(of: account) != nil,
      createdAt: GoogleProtobuf.Timestamp(subject.createdAt)
    )
  }
}
