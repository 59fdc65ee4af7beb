/// The camera and its reader, behind the app's own implementation. Called off the main thread, one call at a time.
public protocol ScannerControl: Sendable {
  func permission() async -> CameraPermission
  /// Shows the system's question and waits for the answer.
  func askForPermission() async -> CameraPermission
  /// Begins to read. From here on the app hands each frame's codes to ``ScannerPage/read(_:)``.
  func start() async
  /// Ends reading and releases the camera.
  func stop() async
}
