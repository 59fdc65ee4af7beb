import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Makes the tokens of a session, and recognises them.
package struct TokenIssuer: Sendable {
  package let issuer: String
  /// The services that accept the tokens; the first is this one.
  package let audiences: [String]
  package let lifetimes: TokenLifetimes
  package let keys: SigningKeyRing
  package let refresh: RefreshToken.Mint
  /// What a browser has in a token's place.
  package let cookies: WebCookies
  private let random: RandomSource

  package init(
    issuer: String,
    audiences: [String],
    lifetimes: TokenLifetimes,
    keys: SigningKeyRing,
    refresh: RefreshToken.Mint,
    cookies: WebCookies,
    random: RandomSource
  ) {
    self.issuer = issuer
    precondition(!audiences.isEmpty, "tokens are for somebody")
    self.audiences = audiences
    self.lifetimes = lifetimes
    self.keys = keys
    self.refresh = refresh
    self.cookies = cookies
    self.random = random
  }

  /// What makes tokens for one call. Asked for before the call keeps anything: nobody's code or challenge is used up for a
  /// session whose tokens cannot be signed.
  ///
  /// Errors: `UNAVAILABLE` while it is not known which keys sign.
  package func issuing() throws(RPCError) -> IssuingTokens {
    do throws(SigningKeyError) {
      return IssuingTokens(issuer: self, signer: try keys.signer(), random: random)
    } catch {
      throw RPCError(signing: error, "the token")
    }
  }

  /// A token for the service itself to act for the session's owner, who agreed: not bound to a key that it does not have.
  package func delegatedToken(of session: Session, at now: Timestamp) throws(RPCError) -> String {
    try issuing().accessToken(of: session, keyThumbprint: nil, at: now)
  }

  /// Shows the migrator that somebody agreed to a merge, whose session may be over by now: a token of no session, which
  /// only this call is made with.
  package func proof(of subject: SubjectID, isGuest: Bool, at now: Timestamp) throws(RPCError) -> String {
    let claims = AccessTokenClaims(
      subject: subject.description,
      audience: audiences,
      issuer: issuer,
      issuedAt: now,
      expiresAt: now + Limits.mergeProofLifetime,
      tokenID: Base64URL.encode(random.bytes(16)),
      clientID: "latchkey-identity",
      scope: Scope.basic.description,
      sessionID: SessionID(from: random).description,
      authenticatedAt: now,
      isGuest: isGuest
    )
    return try issuing().sign(claims)
  }

  /// Errors: `UNAVAILABLE` while they are not known.
  package func publishedKeys() throws(RPCError) -> JSONWebKeySet {
    guard let published = keys.published else { throw .signingKeysUnknown }
    return published
  }

  /// What an access token says, after its signature, issuer, audience and times were checked.
  ///
  /// Errors: `UNAUTHENTICATED`, and `UNAVAILABLE` while nobody knows.
  package func verify(_ token: String, at now: Timestamp) throws(RPCError) -> AccessTokenClaims {
    let verifier = try verifier()
    do throws(TokenError) {
      return try verifier.verify(token, at: now)
    } catch {
      throw RPCError(error)
    }
  }

  /// The same; nil for a token that does not hold.
  ///
  /// Errors: `OTHER_CELL` for one of another cell, `UNAVAILABLE` while nobody knows.
  package func genuine(_ token: String, at now: Timestamp) throws(RPCError) -> AccessTokenClaims? {
    let verifier = try verifier()
    do throws(TokenError) {
      return try verifier.verify(token, at: now)
    } catch {
      if case .otherCell(let cell) = error { throw .otherCell(cell) }
      return nil
    }
  }

  private func verifier() throws(RPCError) -> AccessTokenVerifier {
    AccessTokenVerifier(keys: try publishedKeys(), issuer: issuer, audience: audiences[0], cell: random.cell)
  }
}
