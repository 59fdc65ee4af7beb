/// What the service said about this device's guest.
public struct GuestStart: Sendable, Equatable {
  public let session: Session
  /// False when the device key already had its guest.
  public let created: Bool
  /// How the last account on this device signed in, when there was one.
  public let lastLogin: LoginHint?
  /// The version of the policy that says what guests may do.
  public let gatePolicyVersion: Int64
}
