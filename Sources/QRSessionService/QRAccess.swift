import LatchkeyProtos
import ServiceRuntime

/// Who may call which method.
package enum QRAccess {
  /// What a code asks for that lets somebody in for long (R46).
  package static let ownersWord = AccessRequirement(.account, .recentProof, .confirmed)

  package static let policies =
    AccessPolicies(QRV1.InstanceServiceMethod.self) { method in
      switch method {
      case .wake: .services([.qr])
      }
    }
    + AccessPolicies(QRV1.QrSessionServiceMethod.self) { method in
      switch method {
      // The initiating device has no account yet; it is known by its device code. A token, if it has one, still names it,
      // so that it cannot confirm its own code (S21).
      case .issueSession, .pollSession, .watchSession, .cancelSession: .open
      // Guests get through to be told LOGIN_REQUIRED where the purpose needs an account (S11). Of an account's sessions
      // only those that may do all that the account may: a screen that was given less would give another one more (S16).
      case .scanSession: .subject(.account, .confirmed)
      case .confirmSession:
        .subject(.account, .confirmed).and(
          ownersWord,
          when: "the code is a BIND_DEVICE, a TRANSFER_GUEST or asks for the scope `account`, without "
            + "`reauth_proof`")
      case .denySession: .subject(.account)
      }
    }
}
