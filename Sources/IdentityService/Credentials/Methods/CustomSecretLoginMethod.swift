import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Signs in by a name and a secret that an app made for itself (D3).
struct CustomSecretLoginMethod: LoginMethod {
  static let method = SignInMethod.customSecret

  let domain: IdentityDomain
  let secrets: SecretChecks

  func verify(
    _ credential: IdentityV1.CustomSecretCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let id = try RequestFields.customID(credential.id, "custom_secret.id")
    let secret = try RequestFields.presentedPassword(credential.secret, "custom_secret.secret")
    return .account(
      try await AccountSecret(
        domain: domain,
        secrets: secrets,
        method: Self.method,
        identifier: .customID(id),
        secret: secret.secret
      ).verify(attempt))
  }
}
