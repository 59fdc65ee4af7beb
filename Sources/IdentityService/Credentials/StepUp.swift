import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension AuthHandlers {
  /// Lets the caller prove again who they are, so that their session may change who gets in (R46).
  package func stepUp(
    _ request: IdentityV1.StepUpRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.StepUpResponse {
    guard let presented = request.method else { throw .invalid("method", "is missing") }
    let caller = try context.requireSubject()
    let issuing = try tokens.issuing()
    let client = try RequestFields.clientID(caller.clientID)
    let proven =
      caller.isGuest
      ? try deviceProof(presented, client)
      : try await accountProof(
        presented,
        LoginAttempt(
          client: client, provenKey: caller.keyThumbprint, source: context.source,
          account: try context.callerSubject()))
    let stepUp = StepUp(
      session: try context.callerSession(), proof: proven.proof, challenge: proven.challenge,
      lifetimes: tokens.lifetimes, address: context.peer.address, now: clock.now())
    // What holds more than once may be shown as often as one likes.
    let session = try await methods.evidence.secrets.settling(proven.counted, grants: { _ in proven.isSpent }) {
      () async throws(RPCError) in try await steppedUp(stepUp)
    }
    return IdentityV1.StepUpResponse(tokens: try issuing.tokens(of: session, at: stepUp.now))
  }

  private func steppedUp(_ stepUp: StepUp) async throws(RPCError) -> Session {
    switch try await perform(stepUp) {
    case .steppedUp(let session): return session
    case .sessionEnded: throw .sessionRevoked
    case .credentialChanged: throw .invalidCredentials
    case .challengeUsed: throw .challengeInvalid
    case .notIndependent:
      throw RPCError(
        .permissionDenied, "this session came by it, or enrolled it: prove who you are by something else",
        reason: "CREDENTIAL_NOT_INDEPENDENT")
    }
  }

  /// What somebody proved themselves by, once more.
  private struct Proven {
    let proof: StepUp.Proof
    let challenge: UsedChallenge?
    /// The try that was counted for it.
    var counted: CountedAttempt?

    /// Whether it holds this once only.
    var isSpent: Bool { if case .credential(.code) = proof { true } else { false } }
  }

  private func deviceProof(
    _ presented: IdentityV1.StepUpRequest.Method, _ client: ClientID
  ) throws(RPCError) -> Proven {
    guard case .deviceKey(let credential) = presented else {
      throw .invalid("method", "must be device_key: a guest proves its device's key")
    }
    let shown = try PresentedKeyProof(
      credential.proof, "device_key.proof", for: .unlock, client: client, methods.evidence.challenges, at: clock.now())
    guard shown.holds else { throw .invalidCredentials }
    return Proven(proof: .device(keyThumbprint: shown.keyThumbprint), challenge: shown.challenge)
  }

  private func accountProof(
    _ presented: IdentityV1.StepUpRequest.Method, _ attempt: LoginAttempt
  ) async throws(RPCError) -> Proven {
    let method: IdentityV1.AuthenticateRequest.Method =
      switch presented {
      case .password(let credential): .password(credential)
      case .otp(let credential): .otp(credential)
      case .pattern(let credential): .pattern(credential)
      case .deviceKey(let credential): .deviceKey(credential)
      case .idToken(let credential): .idToken(credential)
      case .customSecret(let credential): .customSecret(credential)
      }
    // Whoever it leads to elsewhere is as wrong as nobody.
    guard case .account(let login) = try await methods.verify(method, attempt), attempt.admits(login.account) else {
      throw .invalidCredentials
    }
    return Proven(proof: .credential(login.proof), challenge: login.challenge, counted: login.counted)
  }
}
