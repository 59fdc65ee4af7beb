import GRPC
import LatchkeyModel
import Storage

/// What the callers of the QR service are told. Texts are for the client's developer; causes stay in the log.
extension RPCError {
  /// To scanners: unknown, expired, denied, claimed by somebody else, or a ticket that does not hold. One answer for
  /// all, so that it tells nothing about a code (S24).
  static let noSuchCode = RPCError(.notFound, "there is no such code to confirm")

  /// To whoever types a code while many wrong ones are typed: unknown, or of a screen on another network.
  static let typedElsewhere = RPCError(
    .resourceExhausted,
    "too many wrong codes are typed: scan the code, or type it on the screen's own network",
    reason: "RATE_LIMITED",
    retryAfter: .seconds(30)
  )

  /// To pollers: a device code that we never gave out, or forgot.
  static let unknownDeviceCode = RPCError(.notFound, "there is no such device code")

  /// RFC 8628 section 3.5.
  static func slowDown(retryAfter: Duration, interval: Duration) -> RPCError {
    RPCError(
      .resourceExhausted,
      "polled faster than every \(interval.secondsRoundedUp) s",
      reason: "slow_down",
      info: [KeyValue("interval", "\(interval.secondsRoundedUp)")],
      retryAfter: retryAfter
    )
  }

  static func rateLimited(_ what: String, retryAfter: Duration) -> RPCError {
    RPCError(.resourceExhausted, "too many \(what)", reason: "RATE_LIMITED", retryAfter: retryAfter)
  }

  static let accessDenied = RPCError(.permissionDenied, "the person refused", reason: "access_denied")

  static let expired = RPCError(.failedPrecondition, "the code's time is over", reason: "expired_token")

  static let cancelled = RPCError(.failedPrecondition, "the code was cancelled", reason: "expired_token")

  static let alreadyUsed = RPCError(
    .failedPrecondition,
    "the code was used before: what it issued has been revoked",
    reason: "expired_token"
  )

  /// To the poller of a code whose confirmer cannot sign anybody in any more.
  static let confirmerGone = RPCError(
    .permissionDenied,
    "who agreed has signed out or is disabled by now",
    reason: "access_denied"
  )

  static let loginRequired = RPCError(
    .permissionDenied,
    "a guest cannot confirm this: sign in first",
    reason: "LOGIN_REQUIRED"
  )

  static let insufficientScope = RPCError(
    .permissionDenied,
    "the token lacks the scope account: only a device of one's own agrees to codes",
    reason: "INSUFFICIENT_SCOPE"
  )

  static let sameDevice = RPCError(
    .failedPrecondition,
    "the device that shows a code cannot confirm it",
    reason: "SAME_DEVICE"
  )

  static let reauthenticationRequired = RPCError(
    .failedPrecondition,
    "prove who you are again, then confirm",
    reason: "REAUTHENTICATION_REQUIRED"
  )

  static let wrongCheckCode = RPCError(
    .permissionDenied,
    "the digits were wrong: the code is void",
    reason: "CHECK_CODE_WRONG"
  )

  static let riskDenied = RPCError(
    .permissionDenied,
    "this code is not confirmed from where this device is",
    reason: "RISK_DENIED"
  )

  static let wrongReauthProof = RPCError(
    .permissionDenied,
    "the signature is not the device key's over this ticket and action",
    reason: "REAUTH_PROOF_INVALID"
  )

  /// To a device that asks for a code in the name of a client that has known devices only (S12).
  static func untrusted(_ refusal: TrustedInitiators.Refusal, client: ClientID) -> RPCError {
    let message =
      switch refusal {
      case .device: "\(client) gets codes only for its registered devices: device_key is none of theirs"
      case .network: "\(client) gets codes only on its registered networks"
      }
    return RPCError(.permissionDenied, message, reason: "INITIATOR_NOT_TRUSTED")
  }

  static let codeClaimed = RPCError(
    .failedPrecondition,
    "a phone has claimed the code that this one would take the place of",
    reason: "CODE_CLAIMED"
  )

  /// RFC 7636 section 4.6.
  static let wrongVerifier: RPCError = {
    var error = RPCError.invalid("code_verifier", "does not match the code challenge")
    error.details.reason = "invalid_grant"
    return error
  }()

  static let wrongDeviceProof: RPCError = {
    var error = RPCError.invalid("device_proof", "is not the device key's signature over the device code")
    error.details.reason = "invalid_grant"
    return error
  }()

  static let wrongClient = RPCError(
    .invalidArgument,
    "the device code was given to another client",
    reason: "invalid_grant"
  )

  init(_ error: StorageError) {
    switch error.fault {
    case .cancelled:
      self.init(.cancelled, "the call was cancelled")
    case .overloaded, .superseded:
      self.init(.resourceExhausted, "too much work is waiting", reason: "OVERLOADED", retryAfter: .seconds(1))
    case .unavailable, .full, .closed:
      self.init(.unavailable, "storage cannot be used now", retryAfter: .seconds(1))
    case .outcomeUnknown:
      self.init(.unavailable, "storage did not say whether the change was made", retryAfter: .seconds(1))
    case .constraint, .corrupt, .newerSchema, .olderSchema, .oldInstances, .forbidden, .otherCell, .misuse:
      self.init(.internal, "the request could not be carried out")
    }
  }
}
