/// What the one who offers a transfer agrees to become of the device that it is made on. The raw value is stored.
package enum OldDeviceConsent: Int64, Sendable {
  /// The new device decides.
  case either = 0
  case kept = 1
  case revoked = 2

  package func allows(keepingOld keepsOld: Bool) -> Bool {
    switch self {
    case .either: true
    case .kept: keepsOld
    case .revoked: !keepsOld
    }
  }
}
