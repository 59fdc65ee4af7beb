/// A cookie for a web view, as the service wants it set.
public struct CookieSpec: Sendable, Equatable {
  public let name: String
  public let value: String
  /// Empty: only for the host of the service.
  public let domain: String
  public let path: String
  public let isSecure: Bool
  public let isHTTPOnly: Bool
  /// `Lax`, `Strict` or `None`.
  public let sameSite: String
  public let maximumAge: Duration
  /// All of it as a Set-Cookie header has it.
  public let header: String
}
