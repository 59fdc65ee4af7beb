import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Every way to sign in, by what a request presents. A method is one file beside this one and one line here.
struct LoginMethods: Sendable {
  let core: IdentityCore

  /// Who the credential proves the caller to be.
  func verify(
    _ method: IdentityV1.AuthenticateRequest.Method,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    switch method {
    case .password(let credential): try await PasswordLoginMethod(core).verify(credential, attempt)
    case .otp(let credential): try await OTPLoginMethod(core).verify(credential, attempt)
    case .customSecret(let credential): try await CustomSecretLoginMethod(core).verify(credential, attempt)
    case .deviceKey(let credential): try await DeviceKeyLoginMethod(core).verify(credential, attempt)
    case .pattern(let credential): try await PatternLoginMethod(core).verify(credential, attempt)
    case .idToken(let credential): try await IDTokenLoginMethod(core).verify(credential, attempt)
    case .qrGrant(let credential): try await QRGrantLoginMethod(core).verify(credential, attempt)
    }
  }
}
