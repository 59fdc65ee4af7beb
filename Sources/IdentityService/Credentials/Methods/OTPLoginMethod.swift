import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Signs in by a code that was sent to an e-mail address or phone number of the account.
struct OTPLoginMethod: LoginMethod {
  static let method = SignInMethod.otp

  let codes: OneTimeCodes

  func verify(_ credential: IdentityV1.OtpCredential, _ attempt: LoginAttempt) async throws(RPCError) -> LoginFinding {
    if let account = attempt.account { try await requireAddress(credential.identifier, of: account, attempt) }
    let shown = try await PresentedCode(credential, "otp", codes, by: attempt.requester, noting: attempt.missed)
    // To an address without an account a code was sent only to make one.
    guard let account = shown.account else {
      await codes.secrets.notMade(shown.counted)
      throw .codeVoid
    }
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: account,
        mask: shown.identifier.mask,
        proof: .code(account: account, identifier: shown.identifier, code: shown.code),
        counted: shown.counted
      ))
  }

  /// Refuses an address that does not lead to the account before any code is looked at.
  private func requireAddress(
    _ text: String,
    of account: SubjectID,
    _ attempt: LoginAttempt
  ) async throws(RPCError) {
    let identifier = try RequestFields.address(text, "otp.identifier")
    let found = try await codes.look(FindAccount(for: identifier))
    if let found, found.isProven, found.subject == account { return }
    _ = try await codes.secrets.countAttempt(
      "otp \(identifier.kind.rawValue) \(identifier.canonical)",
      account: account,
      by: attempt.requester
    )
    throw .codeVoid
  }
}
