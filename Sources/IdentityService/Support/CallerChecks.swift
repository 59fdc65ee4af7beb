import Cryptography
import GRPC
import LatchkeyModel
import ServiceRuntime

/// Who calls, beyond what the interceptor says: the key that a call proves, the guest whose token it carries, and how
/// recent their proof of identity is.
struct CallerChecks: Surrounded {
  let proofs: DPoPVerifier
  let tokens: TokenIssuer
  /// How recent a proof must be to change who gets in.
  let stepUp: StepUpPolicy
  let surroundings: Surroundings

  func verified(_ accessToken: String, at now: LatchkeyModel.Timestamp) throws(RPCError) -> AccessTokenClaims {
    try tokens.verify(accessToken, at: now)
  }

  /// A guest whose access token a call carries.
  struct Guest: Sendable {
    let session: SessionID
    /// Thumbprint of the key that the token is bound to, which the call has proven; nil for none.
    let boundKey: String?
  }

  /// The session of a guest's access token; nil when none was sent. Errors: as ``guest(of:provenKey:in:at:)``.
  func guestSession(
    of token: String, provenKey: String?, in context: ServerContext, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> SessionID? {
    try guest(of: token, provenKey: provenKey, in: context, at: now)?.session
  }

  /// Whose a guest's access token is; nil when none was sent. A token that is bound to a key counts only from who has
  /// proven that key: its data is at stake. The call's proof does not count again then, however the call ends.
  func guest(
    of token: String, provenKey: String?, in context: ServerContext, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> Guest? {
    guard !token.isEmpty else { return nil }
    let claims = try verified(try RequestFields.token(token, "guest_token"), at: now)
    guard claims.isGuest else { throw .invalid("guest_token", "is an account's token, not a guest's") }
    if let key = claims.keyThumbprint {
      guard key == provenKey else { throw DPoPVerifier.invalid }
      context[DPoPVerifier.KeyMattered.self] = true
    }
    guard let session = SessionID(claims.sessionID) else { throw .tokenInvalid }
    return Guest(session: session, boundKey: claims.keyThumbprint)
  }

  /// Refuses a caller whose token is not good for what this call asks for, beyond what the method itself needs.
  func require(_ requirement: AccessRequirement, of context: ServerContext) throws(RPCError) {
    try requirement.check(try context.requireSubject(), stepUp, at: clock.now())
  }
}
