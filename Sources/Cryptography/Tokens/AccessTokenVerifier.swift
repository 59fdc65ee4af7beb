import LatchkeyModel

/// Decides whether an access token holds, at one time, for one audience (R4 to R9).
package struct AccessTokenVerifier: Sendable {
  package var keys: JSONWebKeySet
  package let issuer: String
  package let audience: String
  /// Whose subjects are accepted; nil for any cell's.
  package let cell: Cell?
  package let clockSkew: Duration

  /// `clockSkew` is how far the issuer's clock may be ahead or behind; at most 60 s (R7).
  package init(
    keys: JSONWebKeySet,
    issuer: String,
    audience: String,
    cell: Cell? = nil,
    clockSkew: Duration = Limits.clockSkew
  ) {
    precondition(clockSkew >= .zero && clockSkew <= Limits.clockSkew, "R7 allows a skew of at most 60 s")
    self.keys = keys
    self.issuer = issuer
    self.audience = audience
    self.cell = cell
    self.clockSkew = clockSkew
  }

  /// The claims of a token that holds at `now`. Costs one verification, about 92 µs.
  ///
  /// Errors: ``TokenError``; ``TokenError/unknownKey(_:)`` may mean that the keys should be fetched again.
  package func verify(_ token: String, at now: Timestamp) throws(TokenError) -> AccessTokenClaims {
    try verifyNamingKey(token, at: now).claims
  }

  /// The same, with the name of the key that verified it.
  package func verifyNamingKey(
    _ token: String,
    at now: Timestamp
  ) throws(TokenError) -> (claims: AccessTokenClaims, keyID: String) {
    let jws = try CompactJWS(parsing: token)
    try jws.checkHeader(type: AccessTokenClaims.type)
    guard let keyID = jws.header["kid"]?.string else { throw .unacceptableHeader("kid") }
    guard let key = keys[keyID] else {
      guard let claimed = jws.claimedPayload, let claims = try? AccessTokenClaims(json: claimed) else {
        throw .unknownKey(keyID)
      }
      try checkCell(claims)
      // By its own word it is over: no key would make it hold.
      if now >= claims.expiresAt + clockSkew { throw .expired }
      throw .unknownKey(keyID)
    }
    let claims = try AccessTokenClaims(json: jws.verifiedPayload(with: key))
    try checkCell(claims)
    try check(claims, at: now)
    return (claims, keyID)
  }

  /// A token whose subject is no id of ours is as well formed as it can be; who reads it finds that out.
  private func checkCell(_ claims: AccessTokenClaims) throws(TokenError) {
    guard let cell, let subject = SubjectID(claims.subject), subject.cell != cell else { return }
    throw .otherCell(subject.cell)
  }

  /// The part of the decision that changes while a token's text stays the same: for tokens whose signature was
  /// verified before.
  package func check(_ claims: AccessTokenClaims, at now: Timestamp) throws(TokenError) {
    guard claims.issuer == issuer else { throw .wrongIssuer }
    guard claims.audience.contains(audience) else { throw .wrongAudience }
    // RFC 7519 section 4.1.4: "on or after" the expiration time a token is refused.
    guard now < claims.expiresAt + clockSkew else { throw .expired }
    guard now >= claims.notBefore - clockSkew, now >= claims.issuedAt - clockSkew else { throw .notYetValid }
  }
}
