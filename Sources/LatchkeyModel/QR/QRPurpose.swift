/// What a confirmation grants. The numbers are those of the wire and of storage.
package enum QRPurpose: Int, Sendable, CaseIterable {
  /// The initiating device is signed in to the confirming person's account.
  case login = 1
  /// The initiating device's key becomes one of the account's devices.
  case bindDevice = 2
  /// The guest or account of the confirming device moves to the initiating device.
  case transferGuest = 3
  /// The person agrees to one action; nobody is signed in.
  case confirmAction = 4

  /// As it is written in the configuration and on the command line.
  package var name: String {
    switch self {
    case .login: "login"
    case .bindDevice: "bind-device"
    case .transferGuest: "transfer-guest"
    case .confirmAction: "confirm-action"
    }
  }

  package init?(name: String) {
    guard let purpose = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = purpose
  }

  /// Whether a guest may confirm (S11, R34): only to move itself.
  package var allowsGuest: Bool { self == .transferGuest }

  /// Whether the device that shows the code is refused as the one that confirms it (S21).
  package var refusesSameDevice: Bool {
    switch self {
    case .login, .bindDevice, .transferGuest: true
    case .confirmAction: false
    }
  }

  /// Whether the grant is the initiating device's key's, which then has to be named and to sign when it collects.
  package var needsDeviceKey: Bool {
    switch self {
    case .bindDevice, .transferGuest: true
    case .login, .confirmAction: false
    }
  }

  /// Whether only the confirming device's signature confirms: it is the evidence that is handed out.
  package var needsSignature: Bool { self == .confirmAction }

  /// What the person is asked to allow, and may narrow: what was asked for, or what a screen gets that asks for nothing
  /// in particular. An action allows nothing besides; a guest or account that moves keeps what it has.
  package func scope(asked: Scope) -> Scope {
    switch self {
    case .login, .bindDevice: asked.isEmpty ? .screen : asked
    case .transferGuest: asked
    case .confirmAction: .empty
    }
  }
}
