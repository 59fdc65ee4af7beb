import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
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
    try cell.requireSame(token.session.cell)
    let now = clock.now()
    // Any key will do for a session that is bound to none, as often as anybody likes.
    return try await callers.proofs.withProvenKey(
      context, at: now, remembersIf: { $0.tokens?.cnfJkt == $1 }
    ) { provenKey throws(RPCError) in
      try await refresh(token, provenKey, at: now)
    }
  }

  private func refresh(
    _ token: RefreshToken,
    _ provenKey: String?,
    at now: LatchkeyModel.Timestamp
  ) async throws(RPCError) -> IdentityV1.RefreshResponse {
    let refresh = Refresh(
      session: token.session, generation: token.generation, lifetimes: tokens.lifetimes, at: now,
      isGenuine: { [mint = tokens.refresh] session in
        // A token that is bound to a key is nothing without it, and rotates for nobody else (R21).
        mint.isGenuine(token, of: session) && Self.isAllowed(session, provenKey)
      })
    let issuing = try tokens.issuing()
    let outcome = try await stored { () throws(StorageError) in try await domain.refresh(refresh) }
    switch outcome {
    case .refreshed(let session):
      return IdentityV1.RefreshResponse(tokens: try issuing.tokens(of: session, at: now))
    case .reused(let session):
      logger.warning(
        "a refresh token was used twice; its session has ended",
        metadata: ["sid": "\(session.id)", "sub": "\(session.subject)"])
      throw .refreshTokenReused
    case .ended(.refreshReused): throw .refreshTokenReused
    case .ended: throw .sessionRevoked
    case .expired: throw .refreshTokenInvalid
    case .unknown, .suspected:
      // Told apart from a token that does not hold, so that a device keeps what it could not use just now.
      guard let session = try await session(token.session), tokens.refresh.isGenuine(token, of: session),
        !Self.isAllowed(session, provenKey)
      else { throw .refreshTokenInvalid }
      throw DPoPVerifier.invalid
    }
  }

  private static func isAllowed(_ session: Session, _ provenKey: String?) -> Bool {
    session.boundKeyThumbprint == nil || session.boundKeyThumbprint == provenKey
  }
}
