/// Why an access token was refused. What exactly is wrong with it is nobody's business but the log's.
public enum TokenRefusal: Error, Sendable, Equatable {
  /// Answer `UNAUTHENTICATED`; the app refreshes and tries again.
  case expired
  /// Not a token of this issuer for this service.
  case invalid
  /// The token is bound to a key (RFC 9449) that the call has not proven.
  case proofRequired
  /// The issuer's keys could not be fetched yet: answer `UNAVAILABLE`.
  case keysUnavailable
}
