/// A code by which another device becomes this guest's or account's.
public struct TransferOffer: Sendable, Equatable {
  /// To be typed on the other device.
  public let code: String
  /// To be drawn as a QR code.
  public let payload: String
  public let expiresIn: Duration
  public let transferID: String
}
