/// A code to show, and what its device keeps to collect the sign-in.
public struct QROffer: Sendable, Equatable {
  /// What the QR code holds: safe to photograph.
  public let payload: String
  /// For a person to type when there is no camera.
  public let userCode: String
  public let verificationURI: String
  public let expiresIn: Duration
  /// The least time between polls.
  public let interval: Duration
  /// Shown beside the code and typed on the phone; empty when the policy asks for none.
  public let checkCode: String
  /// What this device may broadcast over Bluetooth while the code is shown, for phones to hear that they are near.
  public let beacon: String
  /// Collects the sign-in. Never leaves this device.
  public let ticket: QRTicket
}
