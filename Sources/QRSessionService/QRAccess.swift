import LatchkeyProtos
import ServiceRuntime

/// Who may call which method.
enum QRAccess {
  static let policies = AccessPolicies(QRV1.QrSessionServiceMethod.self) { method in
    switch method {
    // The initiating device has no account yet; it is known by its device code. A token, if it has one, still names it,
    // so that it cannot confirm its own code (S21).
    case .issueSession, .pollSession, .watchSession, .cancelSession: .open
    // Guests get through to be told LOGIN_REQUIRED where the purpose needs an account (S11).
    case .scanSession, .confirmSession, .denySession: .subject
    }
  }
}
