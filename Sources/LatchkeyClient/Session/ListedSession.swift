/// One of the signed-in devices of whoever uses this one.
public struct ListedSession: Sendable, Equatable {
  public let sessionID: String
  /// The application that it runs in.
  public let clientID: String
  /// How it was begun, such as `password` or `qr`.
  public let method: String
  public let deviceLabel: String
  public let platform: String
  public let scope: String
  /// Milliseconds since 1970 in UTC; nil when the service does not say.
  public let createdAt: Int64?
  public let lastUsedAt: Int64?
  public let expiresAt: Int64?
  /// This device's own.
  public let isCurrent: Bool
  /// False for one that a code began less than a day ago and nobody confirmed: it may not end others.
  public let isConfirmed: Bool
}
