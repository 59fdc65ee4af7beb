/// A device that proved its key, as it described itself.
package struct DeviceRegistration: Sendable, Equatable {
  /// SHA-256 thumbprint of the public key (RFC 7638).
  package let keyThumbprint: String
  /// The affine coordinates, 32 bytes each.
  package let publicKeyX: [UInt8]
  package let publicKeyY: [UInt8]
  package let deviceID: DeviceID
  package let label: DisplayText?
  package let platform: DisplayText?
  package let osVersion: DisplayText?
  package let appVersion: DisplayText?
  /// The key survived a reinstall of the app.
  package let isReinstalled: Bool

  package init(
    keyThumbprint: String,
    publicKeyX: [UInt8],
    publicKeyY: [UInt8],
    deviceID: DeviceID,
    label: DisplayText? = nil,
    platform: DisplayText? = nil,
    osVersion: DisplayText? = nil,
    appVersion: DisplayText? = nil,
    isReinstalled: Bool = false
  ) {
    self.keyThumbprint = keyThumbprint
    self.publicKeyX = publicKeyX
    self.publicKeyY = publicKeyY
    self.deviceID = deviceID
    self.label = label
    self.platform = platform
    self.osVersion = osVersion
    self.appVersion = appVersion
    self.isReinstalled = isReinstalled
  }
}
