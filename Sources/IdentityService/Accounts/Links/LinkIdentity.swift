import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension LinkHandlers {
  /// Lets another identifier lead to the caller's account, or the caller's device unlock it. Idempotent.
  package func linkIdentity(
    _ request: IdentityV1.LinkIdentityRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.LinkIdentityResponse {
    _ = try account(context)
    let caller = try context.callerSession()
    switch request.identity {
    case nil: throw .invalid("identifier", "is missing")
    case .identifier(let text):
      let identifier = try RequestFields.identifier(text, "identifier")
      try evidence.requireNoCode(for: identifier, "identifier")
      try await reauthentication.check(context, request.password)
      return try await link(identifier, by: caller)
    case .otp(let credential):
      try await reauthentication.check(context, request.password)
      let shown = try await PresentedCode(
        credential, "otp", evidence.codes, by: try context.requester(), from: context.peer)
      return try await evidence.secrets.settling(shown.counted, grants: { $0.linked }) {
        () async throws(RPCError) -> IdentityV1.LinkIdentityResponse in
        try await link(shown.identifier, by: caller, code: shown.code)
      }
    case .customSecret(let credential):
      let id = try RequestFields.customID(credential.id, "custom_secret.id")
      let secret = try RequestFields.newCustomSecret(credential.secret, "custom_secret.secret")
      try await reauthentication.check(context, request.password)
      return try await link(.customID(id), by: caller, secretHash: try await evidence.secrets.hash(secret.secret))
    case .idToken(let credential):
      let client = try RequestFields.clientID(try context.requireSubject().clientID)
      try await reauthentication.check(context, request.password)
      let shown = try await PresentedIDToken(credential, "id_token", client: client, evidence.idTokens)
      return try await link(shown.identifier, by: caller, challenge: shown.challenge)
    case .deviceKey(let enrolment):
      let proof = try enrolmentProof(enrolment.proof, "device_key.proof", .enrolUnlock, context)
      try await reauthentication.check(context, request.password)
      return try await enrol(.key, proof, context)
    case .pattern(let enrolment):
      let pattern = try RequestFields.pattern(enrolment.pattern, "pattern.pattern")
      let proof = try enrolmentProof(enrolment.proof, "pattern.proof", .enrolPattern, context)
      try await reauthentication.check(context, request.password)
      return try await enrol(.pattern, proof, secretHash: try await evidence.secrets.hash(pattern.secret), context)
    }
  }

  private func link(
    _ identifier: AccountIdentifier,
    by caller: SessionID,
    code: OneTimeCode? = nil,
    challenge: UsedChallenge? = nil,
    secretHash: String? = nil
  ) async throws(RPCError) -> IdentityV1.LinkIdentityResponse {
    let link = LinkIdentity(
      identifier, by: caller, code: code, challenge: challenge, secretHash: secretHash, notice: NoticeID(from: random),
      at: clock.now())
    switch try await performTelling(link) {
    case .linked(let identity):
      return IdentityV1.LinkIdentityResponse(identity: Self.message(identity), linked: true)
    case .already(let identity):
      return IdentityV1.LinkIdentityResponse(identity: Self.message(identity), linked: false)
    case .taken: throw .identityInUse
    case .unproven: throw .identityUnproven
    case .codeSpent: throw .codeVoid
    case .challengeUsed: throw .challengeInvalid
    case .callerEnded: throw .sessionRevoked
    case .full: throw .tooManyIdentities
    }
  }

  /// The proof of a key that the caller's own app asked a challenge for.
  private func enrolmentProof(
    _ proof: IdentityV1.KeyProof?,
    _ field: String,
    _ purpose: DeviceProof.UnlockPurpose,
    _ context: ServerContext
  ) throws(RPCError) -> PresentedKeyProof {
    let client = try RequestFields.clientID(try context.requireSubject().clientID)
    let shown = try PresentedKeyProof(proof, field, for: purpose, client: client, evidence.challenges, at: clock.now())
    guard shown.holds else { throw .proofInvalid }
    return shown
  }

  private func enrol(
    _ kind: Unlock.Kind,
    _ proof: PresentedKeyProof,
    secretHash: String? = nil,
    _ context: ServerContext
  ) async throws(RPCError) -> IdentityV1.LinkIdentityResponse {
    let enrolment = EnrolUnlock(
      session: try context.callerSession(),
      kind: kind,
      keyThumbprint: proof.keyThumbprint,
      secretHash: secretHash,
      challenge: proof.challenge,
      notice: NoticeID(from: random),
      now: clock.now()
    )
    switch try await performTelling(enrolment) {
    case .enrolled(let unlock, let isNew):
      return IdentityV1.LinkIdentityResponse(identity: Self.message(unlock), linked: isNew)
    case .taken: throw .identityInUse
    case .callerEnded: throw .sessionRevoked
    case .unconfirmed: throw .sessionUnconfirmed
    case .notThisDevice:
      throw RPCError(
        .failedPrecondition,
        "the session's device has shown no key, or the proof is by another key than the device's",
        reason: "DEVICE_KEY_REQUIRED"
      )
    case .challengeUsed: throw .challengeInvalid
    case .full: throw .tooManyIdentities
    }
  }
}
