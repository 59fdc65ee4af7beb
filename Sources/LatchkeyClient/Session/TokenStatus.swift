/// What the service says about this device's access token (RFC 7662).
public struct TokenStatus: Sendable, Equatable {
  /// The token holds now.
  public let active: Bool
  public let subject: SubjectID
  public let isGuest: Bool
  public let sessionID: String
  public let scope: String
  public let clientID: String
  public let issuer: String
  public let audience: [String]
  /// Milliseconds since 1970-01-01T00:00:00Z.
  public let expiresAt: Int64?
}
