import GRPC
import LatchkeyProtos
import Storage

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
    let unlocks = try await stored { () throws(StorageError) in try await self.unlocks.unlocks(of: account) }
    if let unlock = unlocks.first(where: { Self.id(of: $0) == request.identityID }) {
      _ = try await stored { () throws(StorageError) in try await self.unlocks.remove(unlock, at: now) }
      return IdentityV1.UnlinkIdentityResponse()
    }
    let identities = try await stored { () throws(StorageError) in
      try await links.identities(of: account)
    }
    let notFound = RPCError.identityNotFound
    guard let identity = identities.first(where: { Self.id(of: $0) == request.identityID }) else { throw notFound }
    switch try await stored({ () throws(StorageError) in
      try await links.unlink(identity, by: caller, at: now)
    }) {
    case .unlinked: return IdentityV1.UnlinkIdentityResponse()
    case .notFound: throw notFound
    case .callerEnded: throw .sessionRevoked
    case .last:
      throw RPCError(.failedPrecondition, "the last identity of an account stays", reason: "LAST_IDENTITY")
    }
  }
}
