/// What a code would move here, for the person to see before they agree.
public struct TransferPreview: Sendable, Equatable {
  public let isGuest: Bool
  /// A masked identifier; empty for a guest.
  public let accountMask: String
  /// The device that made the code.
  public let deviceLabel: String
  public let platform: String
  public let expiresIn: Duration
  /// What its owner agreed to become of that device.
  public let oldDevice: OldDevice
  public let isSameNetwork: Bool
}
