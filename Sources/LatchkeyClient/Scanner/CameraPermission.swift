/// What the system lets the app do with the camera.
public enum CameraPermission: String, Sendable, CaseIterable {
  case authorized
  /// Nobody has been asked yet.
  case notDetermined
  /// The person said no: only the system's settings change that.
  case denied
  /// A rule of the device forbids it: the person cannot change it.
  case restricted
}
