/// A finished sign-in.
public struct SignIn: Sendable, Equatable {
  public let session: Session
  public let profile: Profile
  /// What changed for the data on this device.
  public let change: AccountChange?
}
