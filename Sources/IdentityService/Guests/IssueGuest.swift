import Cryptography
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
    let now = core.clock.now()
    let proven = try ProvenDevice(request, core.challenges, at: now)
    let issue = GuestIssue(
      device: proven.device,
      challengeHash: proven.challenge.hash,
      challengeExpiry: proven.challenge.expiry,
      newSubject: SubjectID(from: core.random),
      locale: proven.locale,
      draft: SessionDraft(
        client: proven.client,
        method: .guest,
        label: proven.device.label,
        platform: proven.device.platform,
        address: context.peer.address,
        lifetimes: core.lifetimes,
        at: now,
        random: core.random
      )
    )
    switch try await core.stored({ () throws(StorageError) in try await core.guests.issue(issue) }) {
    case .challengeUsed: throw .challengeInvalid
    case .issued(let guest): return try response(guest, at: now)
    }
  }

  private func response(
    _ guest: IssuedGuest, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> IdentityV1.IssueGuestResponse {
    IdentityV1.IssueGuestResponse(
      tokens: try core.tokens.tokens(of: guest.session, at: now),
      subject: CommonV1.Subject(guest.session),
      created: guest.isNew,
      lastLoginHint: guest.lastLogin.map { IdentityV1.LastLoginHint($0) },
      storageNamespace: guest.session.subject.storageNamespace,
      gatePolicyVersion: core.policies.current.version
    )
  }
}

/// A request whose device showed that it holds its key.
private struct ProvenDevice {
  let client: ClientID
  let device: DeviceRegistration
  let challenge: ChallengeBook.Challenge
  let locale: LanguageTag?

  /// Checks what is cheap first; the signature, which costs most, last.
  init(
    _ request: IdentityV1.IssueGuestRequest, _ challenges: ChallengeBook, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) {
    client = try RequestFields.clientID(request.clientID)
    guard let described = request.device else { throw .invalid("device", "is missing") }
    let deviceID = try RequestFields.deviceID(described.deviceID, "device.device_id")
    let label = try RequestFields.displayText(described.label, "device.label")
    let platform = try RequestFields.displayText(described.platform, "device.platform")
    let osVersion = try RequestFields.displayText(described.osVersion, "device.os_version")
    let appVersion = try RequestFields.displayText(described.appVersion, "device.app_version")
    locale = try RequestFields.locale(request.locale)
    guard request.powSolution.count <= Limits.powSolutionBytes else {
      throw .invalid("pow_solution", "must be at most \(Limits.powSolutionBytes) bytes")
    }
    guard !request.challenge.isEmpty else { throw .invalid("challenge", "is missing") }
    guard request.proof.count == 64 else { throw .invalid("proof", "must be 64 bytes, r then s") }
    let key = try RequestFields.publicKey(described.publicKey, "device.public_key")
    let thumbprint = key.thumbprint
    guard
      let challenge = challenges.recognise(request.challenge, client: client, keyThumbprint: thumbprint, at: now)
    else { throw .challengeInvalid }
    guard ProofOfWork.holds(request.powSolution, for: challenge) else {
      throw .workRequired(bits: challenge.workBits)
    }
    let message = DeviceProof.message(client: client, deviceID: deviceID, challenge: request.challenge)
    guard key.verify(signature: request.proof, message: message) else { throw .proofInvalid }
    self.challenge = challenge
    device = DeviceRegistration(
      keyThumbprint: thumbprint,
      publicKeyX: key.x,
      publicKeyY: key.y,
      deviceID: deviceID,
      label: label,
      platform: platform,
      osVersion: osVersion,
      appVersion: appVersion,
      isReinstalled: described.reinstalled
    )
  }
}
