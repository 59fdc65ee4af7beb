import LatchkeyModel

/// What an access token says (RFC 9068 section 2.2, with the claims that are our own).
package struct AccessTokenClaims: Sendable, Equatable {
  /// The subject's opaque identifier: a guest or an account.
  package var subject: String
  /// The services that may accept the token (R9).
  package var audience: [String]
  package var issuer: String
  package var issuedAt: Timestamp
  package var notBefore: Timestamp
  package var expiresAt: Timestamp
  /// Unique for each token.
  package var tokenID: String
  package var clientID: String
  /// Words separated by one space (RFC 6749 section 3.3).
  package var scope: String
  /// The session (refresh-token family) that the token belongs to.
  package var sessionID: String
  /// When the person last proved who they are; a guest does so by its device's key.
  package var authenticatedAt: Timestamp?
  /// What by (`amr`, RFC 8176); empty where that is not known.
  package var authenticationMethods: [String]
  package var isGuest: Bool
  /// The thumbprint of the key that the token is bound to (`cnf.jkt`, RFC 9449 section 6.1).
  package var keyThumbprint: String?
  /// False for a session that a code began, until its owner stands by it.
  package var isConfirmed: Bool

  package init(
    subject: String,
    audience: [String],
    issuer: String,
    issuedAt: Timestamp,
    notBefore: Timestamp? = nil,
    expiresAt: Timestamp,
    tokenID: String,
    clientID: String,
    scope: String,
    sessionID: String,
    authenticatedAt: Timestamp? = nil,
    authenticationMethods: [String] = [],
    isGuest: Bool,
    keyThumbprint: String? = nil,
    isConfirmed: Bool = true
  ) {
    self.subject = subject
    self.audience = audience
    self.issuer = issuer
    self.issuedAt = issuedAt
    self.notBefore = notBefore ?? issuedAt
    self.expiresAt = expiresAt
    self.tokenID = tokenID
    self.clientID = clientID
    self.scope = scope
    self.sessionID = sessionID
    self.authenticatedAt = authenticatedAt
    self.authenticationMethods = authenticationMethods
    self.isGuest = isGuest
    self.keyThumbprint = keyThumbprint
    self.isConfirmed = isConfirmed
  }
}
