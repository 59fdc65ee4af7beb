/// That the person opened this phone's lock to agree to what a scan showed.
public struct QRUnlock: Sendable, Equatable {
  /// What the device key signs besides the ticket; nil unless the code is for an action.
  public let action: QRAction?
  /// Whom the action is for.
  public let clientID: String

  public init(_ scan: QRScan) {
    self.init(action: scan.action, clientID: scan.clientID)
  }

  /// For an app that keeps what the scan showed until the person decides.
  public init(action: QRAction?, clientID: String) {
    self.action = action
    self.clientID = clientID
  }
}
