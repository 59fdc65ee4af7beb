/// Who uses this device, as far as it can tell without the network.
public enum AuthState: Sendable, Equatable {
  /// Nobody yet: ask the service with ``DeviceClient/startAsGuest(_:)``, which also finds an earlier guest again.
  case unknown
  case guest(Session)
  case user(Session)
}
