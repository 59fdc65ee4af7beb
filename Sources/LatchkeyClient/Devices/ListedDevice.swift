/// A device that whoever uses this one is signed in on, or that can sign in by itself.
public struct ListedDevice: Sendable, Equatable {
  /// SHA-256 thumbprint (RFC 7638) of its key: names it in the other calls.
  public let keyThumbprint: String
  public let label: String
  public let platform: String
  public let osVersion: String
  public let appVersion: String
  /// Milliseconds since 1970 in UTC; nil when the service does not say.
  public let firstSeenAt: Int64?
  public let lastSeenAt: Int64?
  public let sessions: Int64
  public let isCurrent: Bool
  /// Set while the device is bound to the account: until it is removed it signs in by its key alone.
  public let binding: DeviceBinding?
}
