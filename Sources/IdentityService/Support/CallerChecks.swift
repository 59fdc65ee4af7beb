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

  /// The session of a guest's access token; nil when none was sent. A token that is bound to a key counts only from who
  /// has proven that key: its data is at stake.
  func guestSession(
    of token: String, provenKey: String?, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> SessionID? {
    guard !token.isEmpty else { return nil }
    let claims = try verified(try RequestFields.token(token, "guest_token"), at: now)
    guard claims.isGuest else { throw .invalid("guest_token", "is an account's token, not a guest's") }
    if let key = claims.keyThumbprint, key != provenKey { throw DPoPVerifier.invalid }
    guard let session = SessionID(claims.sessionID) else { throw .tokenInvalid }
    return session
  }

  /// Refuses a caller whose token is not good for what this call asks for, beyond what the method itself needs.
  func require(_ requirement: AccessRequirement, of context: ServerContext) throws(RPCError) {
    try requirement.check(try context.requireSubject(), stepUp, at: clock.now())
  }
}
