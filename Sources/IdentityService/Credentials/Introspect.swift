import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

extension AuthHandlers {
  /// Tells whether a token holds now (RFC 7662): its session is looked up, so an ended one is inactive at once.
  ///
  /// Another service may ask about any token, a person's app about that person's: anyone else learns nothing, which is
  /// the same answer as for a token that does not hold.
  package func introspect(
    _ request: IdentityV1.IntrospectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.IntrospectResponse {
    let text = try RequestFields.token(request.token, "token")
    let now = clock.now()
    guard let token = try await tokenSession(text), token.session.isLive(at: now) else {
      return IdentityV1.IntrospectResponse()
    }
    let session = token.session
    switch context.caller {
    case .service: break
    case .subject(let caller) where caller.subject == session.subject.description: break
    case .subject, .anonymous: return IdentityV1.IntrospectResponse()
    }
    var response = IdentityV1.IntrospectResponse(
      active: true,
      sub: session.subject.description,
      sid: session.id.description,
      scope: session.scope.description,
      clientID: session.client.description,
      tokenType: session.boundKeyThumbprint == nil ? "Bearer" : "DPoP",
      iss: tokens.issuer,
      aud: tokens.audiences,
      authTime: GoogleProtobuf.Timestamp(session.authenticatedAt),
      isGuest: session.isGuest,
      amr: session.provenBy?.proofReferences ?? []
    )
    switch token {
    case .access(let claims, _):
      // An earlier token is no younger for what was proved since (RFC 9470 section 6.2).
      response.amr = claims.authenticationMethods
      response.authTime = claims.authenticatedAt.map { GoogleProtobuf.Timestamp($0) }
      response.expiresAt = GoogleProtobuf.Timestamp(claims.expiresAt)
      response.issuedAt = GoogleProtobuf.Timestamp(claims.issuedAt)
    case .refresh(let refresh, _):
      var family = session.family
      let lifetimes = tokens.lifetimes.family(isGuest: session.isGuest, method: session.method)
      switch family.present(generation: refresh.generation, at: now, lifetimes: lifetimes) {
      case .rotate, .repeatNewest: break
      // It would be refused: telling so must not end the session, using it does.
      case .endForReuse, .expired, .unknown: return IdentityV1.IntrospectResponse()
      }
      response.expiresAt = GoogleProtobuf.Timestamp(session.family.idleExpiry)
      response.issuedAt = GoogleProtobuf.Timestamp(session.family.rotatedAt)
    }
    return response
  }
}
