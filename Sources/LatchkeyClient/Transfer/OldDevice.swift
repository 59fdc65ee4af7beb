import LatchkeyProtos

/// What becomes of the device that a guest or account moves from.
public enum OldDevice: String, Sendable, CaseIterable {
  /// The new device decides.
  case either
  case kept
  case revoked

  init(_ proto: IdentityV1.OldDevice) {
    switch proto {
    case .kept: self = .kept
    case .revoked: self = .revoked
    case .unspecified, .unrecognized: self = .either
    }
  }

  var proto: IdentityV1.OldDevice {
    switch self {
    case .either: .unspecified
    case .kept: .kept
    case .revoked: .revoked
    }
  }
}
