import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Every way to sign in, by what a request presents. A method is one file beside this one and one line here.
struct LoginMethods: Sendable {
  let core: IdentityCore

  /// Who the credential proves the caller to be.
  func verify(
    _ method: IdentityV1.AuthenticateRequest.Method, guest: SessionID?
  ) async throws(RPCError) -> VerifiedLogin {
    switch method {
    case .password(let credential): try await PasswordLoginMethod(core).verify(credential, guest: guest)
    case .otp(let credential): try await OTPLoginMethod(core).verify(credential, guest: guest)
    }
  }
}
