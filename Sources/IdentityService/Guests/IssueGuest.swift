import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GuestHandlers {
  /// Makes the guest of a device key, or finds it again. Idempotent for each key: a lost answer, a second call at the
  /// same time or a reinstalled app leads to the same guest.
  package func issueGuest(
    _ request: IdentityV1.IssueGuestRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.IssueGuestResponse {
    let now = clock.now()
    // Each key costs its caller a challenge, and its network work where these are many.
    return try await callers.proofs.withProvenKey(
      context, at: now, remembersIf: { $0.tokens?.cnfJkt == $1 }
    ) { boundKey throws(RPCError) in
      try await issueGuest(request, boundKey, context, at: now)
    }
  }

  private func issueGuest(
    _ request: IdentityV1.IssueGuestRequest,
    _ boundKey: String?,
    _ context: ServerContext,
    at now: LatchkeyModel.Timestamp
  ) async throws(RPCError) -> IdentityV1.IssueGuestResponse {
    let client = try RequestFields.clientID(request.clientID)
    let locale = try RequestFields.locale(request.locale)
    guard request.counter >= 0 else { throw .invalid("counter", "must not be negative") }
    let proven = try ProvenDevice(
      request.device,
      client: client,
      challenge: request.challenge,
      solution: request.powSolution,
      proof: request.proof,
      newGuests.challenges,
      at: now
    ) { deviceID in
      DeviceProof.message(
        client: client, deviceID: deviceID, challenge: request.challenge, counter: request.counter)
    }
    let start = StartGuest(
      device: proven.device,
      challenge: UsedChallenge(hash: proven.challenge.hash, expiry: proven.challenge.expiry),
      newSubject: SubjectID(from: random),
      locale: locale,
      counter: request.counter,
      draft: SessionDraft(
        client: client,
        method: .guest,
        label: proven.device.label,
        platform: proven.device.platform,
        address: context.peer.address,
        boundKeyThumbprint: boundKey,
        lifetimes: tokens.lifetimes,
        at: now,
        random: random
      ),
      mayBeNew: await newGuests.room.hasRoom()
    )
    let issuing = try tokens.issuing()
    switch try await perform(start) {
    case .challengeUsed: throw .challengeInvalid
    case .cloned: throw .deviceCloned
    case .disabled: throw .subjectDisabled
    case .full: throw .noRoomForGuests
    case .started(let guest):
      if guest.isNew { newGuests.room.added() }
      return try response(guest, issuing, at: now)
    }
  }

  private func response(
    _ guest: StartedGuest,
    _ issuing: IssuingTokens,
    at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> IdentityV1.IssueGuestResponse {
    IdentityV1.IssueGuestResponse(
      tokens: try issuing.tokens(of: guest.session, at: now),
      subject: CommonV1.Subject(guest.session),
      created: guest.isNew,
      lastLoginHint: guest.lastLogin.map { IdentityV1.LastLoginHint($0) },
      storageNamespace: guest.session.subject.storageNamespace,
      gatePolicyVersion: policies.current.version
    )
  }
}
