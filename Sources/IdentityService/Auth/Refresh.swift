import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuthHandlers {
  /// Exchanges a refresh token for a new pair. When the answer is lost, the same token brings the same new one until
  /// that is used; anything older ends the session.
  package func refresh(
    _ request: IdentityV1.RefreshRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RefreshResponse {
    guard let token = RefreshToken(try RequestFields.token(request.refreshToken, "refresh_token")) else {
      throw .refreshTokenInvalid
    }
    let now = core.clock.now()
    let outcome = try await core.stored { () throws(StorageError) in
      try await core.sessions.refresh(
        token.session,
        generation: token.generation,
        at: now,
        lifetimes: core.lifetimes,
        isGenuine: { [mint = core.tokens.refresh] session in mint.isGenuine(token, of: session) }
      )
    }
    switch outcome {
    case .refreshed(let session):
      return IdentityV1.RefreshResponse(tokens: try core.tokens.tokens(of: session, at: now))
    case .reused(let session):
      core.logger.warning(
        "a refresh token was used twice; its session has ended",
        metadata: ["sid": "\(session.id)", "sub": "\(session.subject)"])
      throw .refreshTokenReused
    case .ended(.refreshReused): throw .refreshTokenReused
    case .ended: throw .sessionRevoked
    case .expired, .unknown: throw .refreshTokenInvalid
    }
  }
}
