import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Signs in by an ID token of an OpenID provider. Whoever is new gets an account: the token says who they are, so there
/// is nothing to fill in.
struct IDTokenLoginMethod: LoginMethod, Deciding {
  static let method = SignInMethod.oidc

  let domain: IdentityDomain
  let checks: IDTokenChecks

  var surroundings: Surroundings { checks.surroundings }

  func verify(
    _ credential: IdentityV1.IdTokenCredential, _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let shown = try await PresentedIDToken(credential, "id_token", client: attempt.client, checks)
    let found = try await look(FindAccount(for: shown.identifier))
    guard let found else {
      return .newcomer(
        Newcomer(
          method: Self.method, identifier: shown.identifier, profile: shown.profile, challenge: shown.challenge))
    }
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: found.subject,
        mask: shown.identifier.mask,
        proof: .identity(account: found.subject, identifier: shown.identifier),
        challenge: shown.challenge
      ))
  }
}
