import GRPC
import LatchkeyProtos
import Storage

extension LinkHandlers {
  /// Lets an identifier lead to the caller's account no longer. The last one stays, or nobody could sign in any more.
  package func unlinkIdentity(
    _ request: IdentityV1.UnlinkIdentityRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.UnlinkIdentityResponse {
    guard !request.identityID.isEmpty else { throw .invalid("identity_id", "is missing") }
    let password = try RequestFields.presentedPassword(request.password, "password")
    let account = try account(context)
    try await reauthenticate(account, password)
    let identities = try await core.stored { () throws(StorageError) in
      try await core.links.identities(of: account)
    }
    let notFound = RPCError(.notFound, "the account has no such identity", reason: "IDENTITY_NOT_FOUND")
    guard let identity = identities.first(where: { Self.id(of: $0) == request.identityID }) else { throw notFound }
    let now = core.clock.now()
    switch try await core.stored({ () throws(StorageError) in
      try await core.links.unlink(identity, from: account, at: now)
    }) {
    case .unlinked: return IdentityV1.UnlinkIdentityResponse()
    case .notFound: throw notFound
    case .last:
      throw RPCError(.failedPrecondition, "the last identity of an account stays", reason: "LAST_IDENTITY")
    }
  }
}
