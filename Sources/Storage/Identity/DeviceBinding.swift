import LatchkeyModel

/// How a device came to belong to an account: by a QR code that its owner agreed to on another device.
package struct DeviceBinding: Sendable, Equatable {
  package var boundAt: Timestamp
  /// The QR session that granted it: what revokes the one ends the other.
  package var qrSession: String
  /// The device that the person agreed on.
  package var confirmedBy: Session.Device
  /// What they agreed to. The device gets no more when it signs in by its key.
  package var scope: Scope

  package init(boundAt: Timestamp, qrSession: String, confirmedBy: Session.Device, scope: Scope) {
    self.boundAt = boundAt
    self.qrSession = qrSession
    self.confirmedBy = confirmedBy
    self.scope = scope
  }
}
