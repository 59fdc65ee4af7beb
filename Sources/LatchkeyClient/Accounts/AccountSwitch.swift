/// One change of who uses the device, as its steps see it.
public struct AccountSwitch: Sendable {
  /// The storage namespace that was used before; nil at the very first entry.
  public let previousNamespace: String?
  /// Where everything belongs from now on. Open to the steps, and to nobody else before the last of them is done.
  public let space: AccountSpace
  /// The device belongs to another person now: caches and stored credentials have to go
  /// (``AccountChange/wipeRequired``). Remembered over a crash.
  public let wipeRequired: Bool
}
