import GRPC
import LatchkeyProtos
import Storage

extension LinkHandlers {
  /// Lets another identifier lead to the caller's account. Idempotent.
  package func linkIdentity(
    _ request: IdentityV1.LinkIdentityRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.LinkIdentityResponse {
    let identifier = try RequestFields.identifier(request.identifier, "identifier")
    let password = try RequestFields.presentedPassword(request.password, "password")
    let account = try account(context)
    try await reauthenticate(account, password)
    let now = core.clock.now()
    let outcome = try await core.stored { () throws(StorageError) in
      try await core.links.link(identifier, to: account, at: now)
    }
    switch outcome {
    case .linked(let identity):
      return IdentityV1.LinkIdentityResponse(identity: Self.message(identity), linked: true)
    case .already(let identity):
      return IdentityV1.LinkIdentityResponse(identity: Self.message(identity), linked: false)
    case .taken: throw .identityInUse
    case .noAccount: throw .sessionRevoked
    case .full:
      throw RPCError(.failedPrecondition, "the account has as many identities as one may have", reason: "TOO_MANY")
    }
  }
}
