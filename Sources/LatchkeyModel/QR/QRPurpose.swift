/// What a confirmation grants. The numbers are those of the wire and of storage.
package enum QRPurpose: Int, Sendable, CaseIterable {
  /// The initiating device is signed in to the confirming person's account.
  case login = 1
  /// As login, and the tokens belong to the initiating device's key.
  case bindDevice = 2
  /// The guest on the confirming device moves to the initiating device.
  case transferGuest = 3
  /// The person agrees to one action; nobody is signed in.
  case confirmAction = 4

  /// Whether a guest may confirm (S11, R34): only to move itself.
  package var allowsGuest: Bool { self == .transferGuest }

  /// Whether the device that shows the code is refused as the one that confirms it (S21).
  package var refusesSameDevice: Bool {
    switch self {
    case .login, .bindDevice, .transferGuest: true
    case .confirmAction: false
    }
  }

  /// Whether the service issues codes for it. The rules of the others are in place; their grants are not.
  package var isOffered: Bool {
    switch self {
    case .login, .bindDevice: true
    case .transferGuest, .confirmAction: false
    }
  }
}
