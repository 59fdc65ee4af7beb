package import GRPC
package import LatchkeyModel

/// How recently a person must have proved who they are before they change who gets in (R46).
package struct StepUpPolicy: Sendable, Equatable {
  package let maximumAge: Duration

  package init(maximumAge: Duration = .seconds(300)) {
    self.maximumAge = maximumAge
  }

  package func isRecent(_ proved: Timestamp?, at now: Timestamp) -> Bool {
    guard let proved else { return false }
    return now - proved <= maximumAge
  }

  /// What a caller is told whose proof is older: how old it may be, and which proofs `AuthService.StepUp` takes.
  package func required(ofGuest isGuest: Bool) -> RPCError {
    RPCError(
      .unauthenticated,
      "this changes who gets in: prove who you are by StepUp, then call again",
      reason: "STEP_UP_REQUIRED",
      info: [
        RPCError.KeyValue("max_age", "\(maximumAge.components.seconds)"),
        RPCError.KeyValue("proofs", isGuest ? Self.guestProofs : Self.accountProofs),
      ]
    )
  }

  static let guestProofs = "device_key"
  static let accountProofs = "password otp pattern device_key id_token custom_secret"
}
