/// What somebody was about to do when a gate asked them to sign in first.
public struct PendingAction: Sendable, Equatable {
  /// The gate's action, such as `comment`; at most 256 bytes.
  public let action: String
  /// What the app needs to do it, in the app's own words; at most 64 KiB.
  public let payload: [UInt8]
  /// Sent with the call that does it, so that it is done once even when its answer is lost.
  public let idempotencyKey: String
  /// Milliseconds since 1970 in UTC; nobody expects it to happen later.
  public let expiresAt: Int64
}
