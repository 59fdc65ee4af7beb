import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Signs in by a code that was sent to an e-mail address or phone number of the account.
struct OTPLoginMethod: LoginMethod {
  static let method = SignInMethod.otp

  let codes: OneTimeCodes

  func verify(_ credential: IdentityV1.OtpCredential, _ attempt: LoginAttempt) async throws(RPCError) -> LoginFinding {
    let shown = try await PresentedCode(credential, "otp", codes, by: attempt.requester)
    // To an address without an account a code was sent only to make one.
    guard let account = shown.account else { throw .codeVoid }
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: account,
        mask: shown.identifier.mask,
        proof: .code(account: account, identifier: shown.identifier, code: shown.code)
      ))
  }
}
