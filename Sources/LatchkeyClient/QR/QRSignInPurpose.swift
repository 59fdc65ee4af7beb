import LatchkeyProtos

/// What a QR code asks the scanning phone to agree to.
public enum QRSignInPurpose: String, Sendable, CaseIterable {
  case login
  case bindDevice = "bind-device"
  case transferGuest = "transfer-guest"
  case confirmAction = "confirm-action"

  /// Whether the grant is the key's of the device that shows the code.
  var needsDeviceKey: Bool { self == .bindDevice || self == .transferGuest }

  var proto: QRV1.Purpose {
    switch self {
    case .login: .login
    case .bindDevice: .bindDevice
    case .transferGuest: .transferGuest
    case .confirmAction: .confirmAction
    }
  }

  init?(_ proto: QRV1.Purpose) {
    switch proto {
    case .login: self = .login
    case .bindDevice: self = .bindDevice
    case .transferGuest: self = .transferGuest
    case .confirmAction: self = .confirmAction
    default: return nil
    }
  }
}
