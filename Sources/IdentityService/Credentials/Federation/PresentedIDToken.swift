import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Storage

/// What it takes to recognise an ID token.
struct IDTokenChecks: Surrounded {
  let challenges: ChallengeBook
  let providers: OpenIDProviders
  let surroundings: Surroundings
}

/// An ID token that holds, made for a nonce of ours.
struct PresentedIDToken: Sendable {
  /// What a nonce is bound to besides the client: no key.
  static let nonceBinding = "id_token"

  let identifier: AccountIdentifier
  let profile: Profile
  let challenge: UsedChallenge

  /// - Parameter field: where the credential stands in the request.
  init(
    _ credential: IdentityV1.IdTokenCredential, _ field: String, client: ClientID, _ checks: IDTokenChecks
  ) async throws(RPCError) {
    let token = try RequestFields.token(credential.idToken, "\(field).id_token")
    guard !credential.nonce.isEmpty else { throw .invalid("\(field).nonce", "is missing") }
    let now = checks.clock.now()
    guard
      let challenge = checks.challenges.recognise(
        credential.nonce, client: client, keyThumbprint: Self.nonceBinding, at: now)
    else { throw .challengeInvalid }
    let verified: (id: FederatedID, claims: JSONValue)
    do throws(OpenIDProviders.Failure) {
      verified = try await checks.providers.verify(token, nonce: credential.nonce, at: now)
    } catch {
      switch error {
      case .refused: throw .invalidCredentials
      case .unavailable: throw .providerUnavailable
      }
    }
    identifier = .federated(verified.id)
    self.challenge = UsedChallenge(hash: challenge.hash, expiry: challenge.expiry)
    let claims = verified.claims
    profile = Profile(
      // As much as fits is said by the provider; a person may be called something else here.
      nickname: ["nickname", "given_name", "name"].lazy.compactMap { claims[$0]?.string.flatMap { Nickname($0) } }
        .first,
      avatarURL: claims["picture"]?.string.flatMap { AvatarURL($0) }?.description,
      locale: claims["locale"]?.string.flatMap { LanguageTag($0) }
    )
  }
}
