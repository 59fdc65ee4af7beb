internal import Cryptography
package import GRPC
package import LatchkeyModel

/// Turns an access token into the subject that calls, or into the status that the client should see.
package final class TokenAuthenticator: Sendable {
  private let keys: any VerificationKeys
  private let issuer: String
  private let audience: String
  private let cell: Cell?
  let clock: any WallClock
  private let sessions: (any SessionAuthority)?
  private let cache: VerifiedTokenCache

  /// - Parameters:
  ///   - audience: the name of this service (R9).
  ///   - cell: whose subjects may call; nil for any cell's.
  ///   - sessions: who knows about sessions that ended early, where somebody does.
  package init(
    keys: any VerificationKeys,
    issuer: String,
    audience: String,
    cell: Cell? = nil,
    clock: any WallClock = SystemClock(),
    sessions: (any SessionAuthority)? = nil,
    cacheCapacity: Int = Limits.verifiedTokens
  ) {
    self.keys = keys
    self.issuer = issuer
    self.audience = audience
    self.cell = cell
    self.clock = clock
    self.sessions = sessions
    cache = VerifiedTokenCache(capacity: cacheCapacity)
  }

  /// Errors: `UNAUTHENTICATED` with `TOKEN_EXPIRED`, `SESSION_REVOKED` or `TOKEN_INVALID`; `FAILED_PRECONDITION` with
  /// `OTHER_CELL`; `UNAVAILABLE` while the key
  /// may only be missing for a moment.
  package func authenticate(_ token: String) throws(RPCError) -> AuthenticatedSubject {
    guard let known = keys.current else {
      throw Self.keysMissing
    }
    let verifier = AccessTokenVerifier(keys: known, issuer: issuer, audience: audience, cell: cell)
    let claims: AccessTokenClaims
    do throws(TokenError) {
      claims = try verified(token, verifier, clock.now())
    } catch {
      throw refusal(error)
    }
    var subject = AuthenticatedSubject(claims)
    try checkSession(of: subject)
    if !subject.isConfirmed { subject.isConfirmed = sessions?.wasConfirmed(subject) ?? false }
    return subject
  }

  /// Refuses a subject whose session has ended. Calls that go on for long ask again and again (R15): it takes no
  /// storage.
  package func checkSession(of subject: AuthenticatedSubject) throws(RPCError) {
    guard let sessions else { return }
    // What is known to have ended needs no news to be refused.
    if sessions.hasEnded(subject) {
      throw RPCError(.unauthenticated, "the session has ended", reason: "SESSION_REVOKED")
    }
    guard sessions.isCurrent else { throw Self.sessionsUnknown }
  }

  private func verified(
    _ token: String,
    _ verifier: AccessTokenVerifier,
    _ now: Timestamp
  ) throws(TokenError) -> AccessTokenClaims {
    let bytes = Array(token.utf8)
    guard bytes.count <= Limits.credentialBytes else { throw .malformed }
    let hash = SHA256Hash.hash(bytes)
    if let entry = cache[hash], verifier.keys[entry.keyID] != nil {
      // The text and its signature are as they were; the time is not.
      try verifier.check(entry.claims, at: now)
      return entry.claims
    }
    let verified = try verifier.verifyNamingKey(token, at: now)
    cache.insert(VerifiedTokenCache.Entry(claims: verified.claims, keyID: verified.keyID), hash: hash)
    return verified.claims
  }

  private func refusal(_ error: TokenError) -> RPCError {
    switch error {
    case .expired: RPCError(.unauthenticated, "the access token has expired", reason: "TOKEN_EXPIRED")
    case .unknownKey(let keyID): keys.fetchMissing(keyID) ? Self.keysMissing : Self.invalid
    case .otherCell(let cell): .otherCell(cell)
    // One answer for all else: what exactly is wrong helps only whoever forges.
    default: Self.invalid
    }
  }

  private static let invalid = RPCError(
    .unauthenticated,
    "the access token does not hold",
    reason: "TOKEN_INVALID"
  )
  private static let sessionsUnknown = RPCError(
    .unavailable,
    "sessions cannot be checked for a moment",
    retryAfter: .seconds(1)
  )
  private static let keysMissing = RPCError(
    .unavailable,
    "access tokens cannot be verified for a moment",
    retryAfter: .seconds(1)
  )
}
