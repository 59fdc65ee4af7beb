import GRPC
import LatchkeyProtos

/// What a service asks for before it changes who gets in: that a person proves again who they are.
public struct ProofRequest: Sendable, Equatable {
  /// How old the proof may be; nil when the service did not say.
  public let maximumAge: Duration?
  /// What would do, by the service's names: `password`, `otp`, `pattern`, `device_key`, `id_token`, `custom_secret`.
  public let proofs: [String]

  init(_ failure: CallFailure) {
    maximumAge = failure.info["max_age"].flatMap { Int64($0) }.map { .told(seconds: $0) }
    proofs = (failure.info["proofs"] ?? "").split(separator: " ").map { String($0) }
  }
}

extension DeviceClient {
  /// Has `ask` ask the person for a proof whenever a call is refused for want of one (`STEP_UP_REQUIRED`). The call is
  /// made once more with it; nil leaves it refused. A guest's device proves its key without asking anybody.
  public func askForProofs(by ask: (@Sendable (ProofRequest) async -> SignInCredential?)?) {
    proofAsker = ask
  }

  /// Proves again who uses this device. Its session goes on, and changes who gets in for the next minutes.
  ///
  /// Errors: the service's `INVALID_CREDENTIALS`; `CREDENTIAL_NOT_INDEPENDENT` for what the session, which a code or a
  /// transfer began, enrolled itself.
  @discardableResult
  public func stepUp(with credential: SignInCredential) async throws(ClientError) -> Session {
    let request = IdentityV1.StepUpRequest(method: try await stepUpMethod(credential))
    let before = try await usableSession()
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    let answer = try await attempt { options throws(RPCError) in
      try await auth.stepUp(request, options: options)
    }
    let tokens = try require(answer.tokens, "StepUpResponse.tokens")
    guard let stored = try storedSession() else { throw .signedOut }
    guard stored.sub == before.sub else { throw .overtaken }
    let fresh = self.stored(tokens, sub: before.sub, isGuest: before.isGuest, namespace: before.storageNamespace)
    // Kept before it is used: the earlier refresh token holds no longer.
    try keep(fresh)
    return fresh.session
  }

  /// False when nobody is there to prove anything.
  func stepUp(answering failure: CallFailure) async throws(ClientError) -> Bool {
    if try storedSession()?.isGuest == true {
      try await stepUp(with: .deviceKey)
      return true
    }
    guard let proofAsker, let credential = await proofAsker(ProofRequest(failure)) else { return false }
    try await stepUp(with: credential)
    return true
  }

  private func stepUpMethod(
    _ credential: SignInCredential
  ) async throws(ClientError) -> IdentityV1.StepUpRequest.Method {
    switch credential {
    case .password(let identifier, let password):
      .password(IdentityV1.PasswordCredential(identifier: identifier, password: password))
    case .code(let identifier, let code): .otp(IdentityV1.OtpCredential(identifier: identifier, code: code))
    case .customSecret(let id, let secret):
      .customSecret(IdentityV1.CustomSecretCredential(id: id, secret: secret))
    case .idToken(let token, let nonce):
      .idToken(IdentityV1.IdTokenCredential(idToken: token, nonce: nonce))
    case .pattern(let pattern):
      .pattern(IdentityV1.PatternCredential(proof: try await deviceProof(for: .pattern), pattern: pattern))
    case .deviceKey: .deviceKey(IdentityV1.DeviceKeyCredential(proof: try await deviceProof(for: .unlock)))
    }
  }
}
