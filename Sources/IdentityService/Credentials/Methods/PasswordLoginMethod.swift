import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Signs in by an identifier and a password.
struct PasswordLoginMethod: LoginMethod {
  static let method = SignInMethod.password

  let accounts: any AccountStore
  let secrets: SecretChecks

  func verify(
    _ credential: IdentityV1.PasswordCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let identifier = try RequestFields.identifier(credential.identifier, "password.identifier")
    let password = try RequestFields.presentedPassword(credential.password, "password.password")
    return .account(
      try await AccountSecret(
        accounts: accounts,
        secrets: secrets,
        method: Self.method,
        identifier: identifier,
        secret: password.secret
      ).verify(attempt))
  }
}
