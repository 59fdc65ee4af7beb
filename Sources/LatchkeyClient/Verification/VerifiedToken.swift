/// What an access token says, once it was verified.
public struct VerifiedToken: Sendable, Equatable {
  /// Who it speaks for: opaque, stable and never reassigned.
  public let subject: SubjectID
  public let isGuest: Bool
  /// The signed-in device that it belongs to.
  public let sessionID: String
  /// The app that it was issued to.
  public let clientID: String
  /// Words separated by one space (RFC 6749 section 3.3).
  public let scope: String
  /// When it stops to hold, and when the person last proved who they are, in seconds since the epoch.
  public let expiresAt: Int64
  public let authenticatedAt: Int64?
  /// What they proved it by (RFC 8176); empty where that is not known.
  public let authenticationMethods: [String]

  /// Whether it allows `word`.
  public func allows(_ word: String) -> Bool {
    scope.split(separator: " ").contains { $0 == word }
  }
}
