import Cryptography
import GRPC

/// The refusals of the identity service, each with its code and machine-readable reason in one place.
extension RPCError {
  static var tokenExpired: RPCError {
    RPCError(.unauthenticated, "the access token has expired", reason: "TOKEN_EXPIRED")
  }

  static var tokenInvalid: RPCError {
    RPCError(.unauthenticated, "the access token does not hold", reason: "TOKEN_INVALID")
  }

  static var sessionRevoked: RPCError {
    RPCError(.unauthenticated, "the session has ended", reason: "SESSION_REVOKED")
  }

  static var refreshTokenInvalid: RPCError {
    RPCError(.unauthenticated, "the refresh token does not hold", reason: "REFRESH_TOKEN_INVALID")
  }

  static var refreshTokenReused: RPCError {
    RPCError(
      .unauthenticated, "the refresh token was used before; the session has ended", reason: "REFRESH_TOKEN_REUSED")
  }

  /// The same for an unknown account and for a wrong secret (R25).
  static var invalidCredentials: RPCError {
    RPCError(.unauthenticated, "no account has this identifier and secret", reason: "INVALID_CREDENTIALS")
  }

  /// Told apart from a wrong password: the person looks at the message again.
  static func codeInvalid(attemptsLeft: Int64) -> RPCError {
    RPCError(
      .unauthenticated, "the code is not the one that was sent", reason: "CODE_INVALID",
      info: [KeyValue("attempts_left", "\(attemptsLeft)")])
  }

  static var codeVoid: RPCError {
    RPCError(
      .unauthenticated, "there is no code, it expired, was used or was tried too often; ask for another",
      reason: "CODE_VOID")
  }

  static var codeNotDelivered: RPCError {
    RPCError(
      .unavailable, "codes cannot be sent just now", reason: "CODE_DELIVERY_FAILED", retryAfter: Limits.codeSinkRest)
  }

  static func tooManyAttempts(retryAfter: Duration) -> RPCError {
    RPCError(
      .resourceExhausted, "too many tries were not right; wait before the next", reason: "TOO_MANY_ATTEMPTS",
      retryAfter: retryAfter)
  }

  /// The challenge asks for work that was not done. It is not used up.
  static func workRequired(bits: Int) -> RPCError {
    RPCError(
      .failedPrecondition, "pow_solution must make SHA-256(challenge, pow_solution) begin with \(bits) zero bits",
      reason: "CHALLENGE_REQUIRED", info: [KeyValue("pow_bits", "\(bits)")])
  }

  static var challengeInvalid: RPCError {
    RPCError(
      .failedPrecondition, "the challenge is not this key's, was used before or has expired; ask for another",
      reason: "CHALLENGE_INVALID")
  }

  static var proofInvalid: RPCError {
    RPCError(.unauthenticated, "the proof is no signature by this key over this challenge", reason: "PROOF_INVALID")
  }

  static var identityInUse: RPCError {
    RPCError(.alreadyExists, "the identifier leads to an account already", reason: "IDENTITY_IN_USE")
  }

  /// An account has the address, and nobody showed it to be theirs: a code would.
  static var identityUnproven: RPCError {
    RPCError(
      .alreadyExists, "an account has the identifier, unproven; if it is yours, show it by a code (SendOtp), in otp",
      reason: "IDENTITY_IN_USE", info: [KeyValue("proof", "otp")])
  }

  static var providerUnavailable: RPCError {
    RPCError(
      .unavailable, "the provider's keys cannot be fetched just now", reason: "PROVIDER_UNAVAILABLE",
      retryAfter: Limits.providerKeysDistance)
  }

  static func codeRequired(_ field: String) -> RPCError {
    RPCError(
      .failedPrecondition,
      "\(field): an e-mail address or phone number comes with a code that was sent to it (SendOtp), in otp",
      reason: "CODE_REQUIRED")
  }

  static var tooManyIdentities: RPCError {
    RPCError(.failedPrecondition, "the account has as many identities as one may have", reason: "TOO_MANY")
  }

  static var passwordSet: RPCError {
    RPCError(.failedPrecondition, "the account has a password; change it with ChangePassword", reason: "PASSWORD_SET")
  }

  /// Nothing else would lead to the account.
  static var passwordIsLast: RPCError {
    RPCError(
      .failedPrecondition, "nothing else would lead to the account; verify an address first", reason: "LAST_IDENTITY")
  }

  static var passwordChangedMeanwhile: RPCError {
    RPCError(.aborted, "the password was changed meanwhile; try again", retryAfter: .milliseconds(100))
  }

  static var identityNotFound: RPCError {
    RPCError(.notFound, "the account has no such identity", reason: "IDENTITY_NOT_FOUND")
  }

  static var linkTicketInvalid: RPCError {
    RPCError(
      .failedPrecondition, "the link ticket is not this guest's, was used before or has expired",
      reason: "LINK_TICKET_INVALID")
  }

  static var migrationRunning: RPCError {
    RPCError(
      .failedPrecondition, "the guest's data is on its way into an account", reason: "MIGRATION_RUNNING",
      retryAfter: .seconds(5))
  }

  static let noRoomForGuests = RPCError(
    .resourceExhausted,
    "no more guests are taken in now; who has a guest or an account signs in as before",
    reason: "GUESTS_FULL",
    retryAfter: .seconds(600)
  )

  /// Says no more of who holds the key: both are told the same.
  static var deviceCloned: RPCError {
    RPCError(
      .failedPrecondition, "two devices hold this key; choose with ResolveClone who goes on", reason: "DEVICE_CLONED")
  }

  static var subjectDisabled: RPCError {
    RPCError(.permissionDenied, "the operator of the service has disabled this user", reason: "SUBJECT_DISABLED")
  }

  static var keyInUse: RPCError {
    RPCError(.alreadyExists, "device.public_key: the new key is in use already; make another", reason: "KEY_IN_USE")
  }

  static var insufficientScope: RPCError {
    RPCError(.permissionDenied, "the token lacks the scope account", reason: "INSUFFICIENT_SCOPE")
  }

  static var sessionNotFound: RPCError {
    RPCError(.notFound, "the caller has no such session", reason: "SESSION_NOT_FOUND")
  }

  static var loginRequired: RPCError {
    RPCError(.permissionDenied, "a guest may not do this; sign in first", reason: "LOGIN_REQUIRED")
  }

  static var confirmerGone: RPCError {
    RPCError(.failedPrecondition, "the session that confirmed has ended or is another's", reason: "CONFIRMER_GONE")
  }

  static var qrRevoked: RPCError {
    RPCError(.failedPrecondition, "what this code granted was revoked", reason: "QR_REVOKED")
  }

  static var qrTurnOver: RPCError {
    RPCError(.aborted, "turn: the code was asked for in this turn or a later one before", reason: "QR_TURN_OVER")
  }

  /// What a client may know of a token that was refused.
  init(_ error: TokenError) {
    self =
      switch error {
      case .expired: .tokenExpired
      case .otherCell(let cell): .otherCell(cell)
      default: .tokenInvalid
      }
  }

  init(_ error: PasswordHasherError) {
    switch error {
    case .overloaded:
      self.init(.resourceExhausted, "too many sign-ins at once", reason: "OVERLOADED", retryAfter: .seconds(2))
    case .stopped: self.init(.unavailable, "the service is stopping", retryAfter: .seconds(1))
    case .cancelled: self.init(.cancelled, "the call was cancelled")
    case .passwordTooLong: self = .invalid("password.password", "is too long")
    case .malformedHash, .system: self.init(.internal, "the password could not be checked")
    }
  }
}
