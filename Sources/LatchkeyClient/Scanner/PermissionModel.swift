/// What the scanner page shows for the camera's permission. Pure: events in, a state and what to do out.
///
/// ```
///              notDetermined           answer
///  idle ─appear─────────────▶ asking ─────────▶ scanning, guiding or explaining
///    │  authorized                                   │ ▲
///    ├──────────────────────▶ scanning               │ │ becameActive: the settings may have changed
///    │  denied                                       ▼ │
///    ├──────────────────────▶ guidingToSettings ───────┘
///    │  restricted
///    └──────────────────────▶ explaining
/// ```
public struct PermissionModel: Sendable, Equatable {
  public enum State: Sendable, Equatable {
    /// The page is not there.
    case idle
    /// The system's question is on the screen.
    case asking
    case scanning
    /// Shows the way to the system's settings, and the field for typing a code.
    case guidingToSettings
    /// Says that the device forbids it, and shows the field for typing a code.
    case explaining
  }

  public enum Action: Sendable, Equatable {
    case none
    case ask
    case startScanner
    case stopScanner
  }

  public private(set) var state = State.idle

  public init() {}

  /// The page came up, or the app came back to the front with the page there: what the system says now counts.
  public mutating func appeared(_ permission: CameraPermission) -> Action {
    // The system's own question makes the app inactive and active again: it is not asked a second time.
    guard state != .asking || permission != .notDetermined else { return .none }
    return enter(permission)
  }

  /// The person answered the system's question.
  public mutating func answered(_ permission: CameraPermission) -> Action {
    guard state == .asking else { return .none }
    guard permission != .notDetermined else {
      // Nothing was decided, so nobody is asked again until the page comes up the next time.
      state = .guidingToSettings
      return .none
    }
    return enter(permission)
  }

  public mutating func disappeared() -> Action {
    let wasScanning = state == .scanning
    state = .idle
    return wasScanning ? .stopScanner : .none
  }

  private mutating func enter(_ permission: CameraPermission) -> Action {
    let wasScanning = state == .scanning
    switch permission {
    case .authorized:
      state = .scanning
      return wasScanning ? .none : .startScanner
    case .notDetermined:
      state = .asking
      return wasScanning ? .stopScanner : .ask
    case .denied:
      state = .guidingToSettings
    case .restricted:
      state = .explaining
    }
    return wasScanning ? .stopScanner : .none
  }
}
