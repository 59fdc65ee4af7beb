import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Signs in by an identifier and a password.
struct PasswordLoginMethod: LoginMethod {
  static let method = SignInMethod.password

  let domain: IdentityDomain
  let secrets: SecretChecks

  func verify(
    _ credential: IdentityV1.PasswordCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let identifier = try RequestFields.identifier(credential.identifier, "password.identifier")
    let password = try RequestFields.presentedPassword(credential.password, "password.password")
    return .account(
      try await AccountSecret(
        domain: domain,
        secrets: secrets,
        method: Self.method,
        identifier: identifier,
        secret: password.secret
      ).verify(attempt))
  }
}
