import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension DeviceHandlers {
  /// Who holds the cloned key chooses; the first choice holds.
  package func resolveClone(
    _ request: IdentityV1.ResolveCloneRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ResolveCloneResponse {
    let now = clock.now()
    // Who takes a bound guest's place is bound to the new device's key, whatever the call proved.
    return try await callers.proofs.withProvenKey(
      context, at: now, remembersIf: { $0.tokens?.cnfJkt == $1 }
    ) { boundKey throws(RPCError) in
      try await resolveClone(request, boundKey, context, at: now)
    }
  }

  private func resolveClone(
    _ request: IdentityV1.ResolveCloneRequest,
    _ boundKey: String?,
    _ context: ServerContext,
    at now: LatchkeyModel.Timestamp
  ) async throws(RPCError) -> IdentityV1.ResolveCloneResponse {
    let client = try RequestFields.clientID(request.clientID)
    let choice: ResolveClone.Choice
    switch request.choice {
    case .split: choice = .split
    case .transfer: choice = .transfer
    case .unspecified, .unrecognized: throw .invalid("choice", "must be SPLIT or TRANSFER")
    }
    let replacement = try KeyReplacement(
      client: client, oldKey: request.oldKey, device: request.device, challenge: request.challenge,
      solution: request.powSolution, oldProof: request.oldProof, newProof: request.newProof, challenges,
      address: context.peer.address, at: now)
    let draft = SessionDraft(
      client: client,
      method: .guest,
      label: replacement.device.label,
      platform: replacement.device.platform,
      address: context.peer.address,
      boundKeyThumbprint: boundKey,
      lifetimes: tokens.lifetimes,
      at: now,
      random: random
    )
    let resolve = ResolveClone(replacement, choice, newSubject: SubjectID(from: random), draft: draft)
    let issuing = try tokens.issuing()
    switch try await perform(resolve) {
    case .resolved(let guest):
      return IdentityV1.ResolveCloneResponse(
        tokens: try issuing.tokens(of: guest.session, at: now),
        subject: CommonV1.Subject(guest.session),
        created: guest.isNew,
        storageNamespace: guest.session.subject.storageNamespace
      )
    case .challengeUsed: throw .challengeInvalid
    case .notCloned:
      throw RPCError(.failedPrecondition, "nobody else is known to hold this key", reason: "DEVICE_NOT_CLONED")
    case .keyInUse: throw .keyInUse
    case .guestGone:
      throw RPCError(
        .failedPrecondition, "the key's guest is one no longer; choose SPLIT", reason: "GUEST_GONE")
    }
  }
}
