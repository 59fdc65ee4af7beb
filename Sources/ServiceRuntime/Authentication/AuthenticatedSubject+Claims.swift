internal import Cryptography

extension AuthenticatedSubject {
  init(_ claims: AccessTokenClaims) {
    self.init(
      subject: claims.subject,
      sessionID: claims.sessionID,
      isGuest: claims.isGuest,
      scope: claims.scope,
      clientID: claims.clientID,
      authenticatedAt: claims.authenticatedAt,
      keyThumbprint: claims.keyThumbprint,
      isConfirmed: claims.isConfirmed,
      tokenID: claims.tokenID,
      expiresAt: claims.expiresAt
    )
  }
}
