/// What a scanned code is for.
public enum ScanRoute: Sendable, Equatable {
  /// A code of this installation: ask ``DeviceClient/scanQRCode(_:beacons:)`` and show its confirm page.
  case signIn(String)
  /// An address that the app may open. Scanning stops.
  case page(String)
  /// Somebody else's. Nothing is opened, called or shown as a link.
  case unknown
}
