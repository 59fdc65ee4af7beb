package import LatchkeyModel

/// A guest or an account whose access token holds.
package struct AuthenticatedSubject: Sendable, Equatable {
  package let subject: String
  package let sessionID: String
  package let isGuest: Bool
  /// Words separated by one space (RFC 6749 section 3.3).
  package let scope: String
  package let clientID: String
  /// When the person last proved who they are.
  package let authenticatedAt: Timestamp?
  /// The key that the token is bound to.
  package let keyThumbprint: String?
  /// Whether the session is one that its owner began or said to be theirs.
  package var isConfirmed: Bool
  package let tokenID: String
  package let expiresAt: Timestamp

  package init(
    subject: String,
    sessionID: String,
    isGuest: Bool,
    scope: String,
    clientID: String,
    authenticatedAt: Timestamp?,
    keyThumbprint: String?,
    isConfirmed: Bool = true,
    tokenID: String,
    expiresAt: Timestamp
  ) {
    self.subject = subject
    self.sessionID = sessionID
    self.isGuest = isGuest
    self.scope = scope
    self.clientID = clientID
    self.authenticatedAt = authenticatedAt
    self.keyThumbprint = keyThumbprint
    self.isConfirmed = isConfirmed
    self.tokenID = tokenID
    self.expiresAt = expiresAt
  }

  /// Whether the token was granted `word`.
  package func hasScope(_ word: String) -> Bool {
    scope.split(separator: " ").contains { $0 == word }
  }
}
