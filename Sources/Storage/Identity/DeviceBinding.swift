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
  /// When the owner had last proved who they are, and how long what they agreed to holds. Nil for devices that an
  /// earlier version bound.
  package var provenAt: Timestamp?
  package var expiry: Timestamp?

  package init(
    boundAt: Timestamp, qrSession: String, confirmedBy: Session.Device, scope: Scope, provenAt: Timestamp? = nil,
    expiry: Timestamp? = nil
  ) {
    self.boundAt = boundAt
    self.qrSession = qrSession
    self.confirmedBy = confirmedBy
    self.scope = scope
    self.provenAt = provenAt
    self.expiry = expiry
  }

  /// What the device may do when it comes back by its key: what was agreed to, unconfirmed, and nothing without the key.
  package func authority(ofKey keyThumbprint: String) -> Authority {
    Authority(
      scope: scope, method: .qr, provenBy: nil, provenAt: provenAt ?? boundAt, keyThumbprint: keyThumbprint,
      expiry: expiry ?? Timestamp(millisecondsSinceEpoch: 253_402_300_799_000))
  }
}
