import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension LinkHandlers {
  /// Lets an identifier lead to the caller's account no longer, or a device unlock it no longer. The last identifier
  /// stays, or nobody could sign in any more.
  package func unlinkIdentity(
    _ request: IdentityV1.UnlinkIdentityRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.UnlinkIdentityResponse {
    guard !request.identityID.isEmpty else { throw .invalid("identity_id", "is missing") }
    let account = try account(context)
    let caller = try context.callerSession()
    try await reauthentication.check(context, request.password)
    let now = clock.now()
    let unlocks = try await look(ListUnlocks(of: account))
    if let unlock = unlocks.first(where: { Self.id(of: $0) == request.identityID }) {
      switch try await perform(RemoveUnlock(unlock, by: caller, at: now)) {
      // Whoever was faster wanted the same.
      case .removed, .notFound: return IdentityV1.UnlinkIdentityResponse()
      case .callerEnded: throw .sessionRevoked
      }
    }
    let identities = try await look(ListIdentities(of: account))
    let notFound = RPCError.identityNotFound
    guard let identity = identities.first(where: { Self.id(of: $0) == request.identityID }) else { throw notFound }
    let unlink = UnlinkIdentity(identity, by: caller, notice: NoticeID(from: random), at: now)
    switch try await performTelling(unlink) {
    case .unlinked: return IdentityV1.UnlinkIdentityResponse()
    case .notFound: throw notFound
    case .callerEnded: throw .sessionRevoked
    case .last:
      throw RPCError(.failedPrecondition, "the last identity of an account stays", reason: "LAST_IDENTITY")
    }
  }
}
