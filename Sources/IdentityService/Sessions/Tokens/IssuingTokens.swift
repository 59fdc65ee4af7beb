import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Makes the tokens of sessions for one call, with the key that was at hand when the call began. It outlasts the call:
/// verifiers know a key for a token's lifetime after the next one took over.
package struct IssuingTokens: Sendable {
  private let issuer: TokenIssuer
  private let signer: AccessTokenSigner
  private let random: RandomSource

  init(issuer: TokenIssuer, signer: AccessTokenSigner, random: RandomSource) {
    self.issuer = issuer
    self.signer = signer
    self.random = random
  }

  /// The session's tokens, as an answer carries them.
  package func tokens(of session: Session, at now: Timestamp) throws(RPCError) -> CommonV1.TokenSet {
    CommonV1.TokenSet(
      accessToken: try accessToken(of: session, keyThumbprint: session.boundKeyThumbprint, at: now),
      tokenType: session.boundKeyThumbprint == nil ? "Bearer" : "DPoP",
      expiresIn: issuer.lifetimes.access.secondsRoundedUp,
      refreshToken: issuer.refresh.newest(of: session),
      refreshExpiresIn: (session.family.idleExpiry - now).components.seconds,
      scope: session.scope.description,
      sid: session.id.description,
      cnfJkt: session.boundKeyThumbprint ?? "",
      serverTime: GoogleProtobuf.Timestamp(now)
    )
  }

  func accessToken(of session: Session, keyThumbprint: String?, at now: Timestamp) throws(RPCError) -> String {
    let claims = AccessTokenClaims(
      subject: session.subject.description,
      audience: issuer.audiences,
      issuer: issuer.issuer,
      issuedAt: now,
      expiresAt: now + issuer.lifetimes.access,
      tokenID: Base64URL.encode(random.bytes(16)),
      clientID: session.client.description,
      scope: session.scope.description,
      sessionID: session.id.description,
      authenticatedAt: session.authenticatedAt,
      authenticationMethods: session.provenBy?.proofReferences ?? [],
      isGuest: session.isGuest,
      keyThumbprint: keyThumbprint,
      isConfirmed: session.isConfirmed
    )
    return try sign(claims)
  }

  func sign(_ claims: AccessTokenClaims) throws(RPCError) -> String {
    do throws(CryptographyError) {
      return try signer.sign(claims)
    } catch {
      throw RPCError(signing: .cryptography(error), "the token")
    }
  }
}
