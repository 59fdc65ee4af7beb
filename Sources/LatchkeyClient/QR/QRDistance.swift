/// How near the device that shows a code seems to be.
public enum QRDistance: String, Sendable, CaseIterable {
  case unknown
  case sameNetwork = "same-network"
  /// This phone hears it.
  case nearby
  case near
  case far
}
