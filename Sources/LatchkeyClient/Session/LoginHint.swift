/// How an account last signed in on this device: a hint for the sign-in page, never a credential.
public struct LoginHint: Sendable, Equatable {
  /// Such as `password`.
  public let method: String
  /// The account, masked, such as `a***@e***.com`.
  public let accountMask: String
  /// Milliseconds since 1970-01-01T00:00:00Z.
  public let at: Int64?
}
