import Domain
import GRPC
import LatchkeyProtos

extension LinkHandlers {
  /// What leads to the caller's account, masked, the first linked first.
  package func listIdentities(
    _ request: IdentityV1.ListIdentitiesRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ListIdentitiesResponse {
    let account = try context.callerSubject()
    let identities = try await look(ListIdentities(of: account))
    let unlocks = try await look(ListUnlocks(of: account))
    return IdentityV1.ListIdentitiesResponse(
      identities: identities.map { Self.message($0) } + unlocks.map { Self.message($0) })
  }
}
