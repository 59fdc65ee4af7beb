import Callers
import Cryptography
import GRPC
import LatchkeyModel
import Storage

/// What a redeeming poll proves itself by.
struct RedeemProof: Sendable {
  /// The digest that the challenge is compared with (RFC 7636 section 4.6).
  let verifier: Digest256
  /// The verifier itself.
  let text: [UInt8]
  /// The client that asks, where the protocol says which.
  let clientID: ClientID?
  /// The initiating device's signature over its device code, where it sent one.
  let signature: DeviceSignature?

  struct DeviceSignature: Sendable {
    let message: [UInt8]
    let signature: [UInt8]
  }
}

extension QRSessionAPI {
  /// Hands the grant of a confirmed session over, once (S5).
  ///
  /// Identity issues first, then the session is consumed, then the poller is answered. A crash between any two of these
  /// leaves a session that can be redeemed again, and identity ends what nobody received. The poller that proves itself
  /// by the same verifier within 30 s gets the same grant; after that, asking again ends it.
  func redeem(
    _ id: QRSessionID,
    _ proof: RedeemProof,
    _ context: ServerContext
  ) async throws(RPCError) -> RedeemedGrant {
    switch gate.pollReused(id, by: proof.verifier, base: settings.interval, at: clock.now()) {
    case nil: break
    case .accept: throw .alreadyUsed
    case .slowDown(let retryAfter, let interval): throw .slowDown(retryAfter: retryAfter, interval: interval)
    }
    if case .slowDown(let retryAfter, let interval)? = gate.pollGuessed(
      id, by: proof.verifier, base: settings.interval, at: clock.now())
    {
      throw .slowDown(retryAfter: retryAfter, interval: interval)
    }
    let result = await gate.alone(in: id) {
      do throws(RPCError) {
        let grant =
          if let shared = self.shared {
            try await self.redeemTogether(shared, id, proof, context)
          } else {
            try await self.redeemAlone(id, proof, context)
          }
        return Result<RedeemedGrant, RPCError>.success(grant)
      } catch {
        return .failure(error)
      }
    }
    guard let result else { throw RPCError(.cancelled, "the poll was cancelled") }
    return try result.get()
  }

  private func redeemAlone(
    _ id: QRSessionID,
    _ proof: RedeemProof,
    _ context: ServerContext
  ) async throws(RPCError) -> RedeemedGrant {
    let before = try await redeeming(id, proof)
    if let grant = gate.answer(of: id, for: proof.verifier, at: clock.now()) { return grant }
    let session = try await redeemed(before, proof, context)
    guard session.version == before.version else { return try await handOver(before, session, proof, context) }
    // A restart lost the answer. Identity ends what it issued before.
    let grant = try await issueAlone(before, as: session, context)
    let consumed = session.consumed ?? clock.now()
    gate.remember(grant, of: id, for: proof.verifier, until: consumed + QRLimits.repeatWindow)
    return grant
  }

  /// The session as it is stored, and as it is once it is redeemed: the same where it was, by the same poller, a moment
  /// ago.
  func redeemable(
    _ id: QRSessionID, _ proof: RedeemProof, _ context: ServerContext
  ) async throws(RPCError) -> (before: QRSession, session: QRSession) {
    let before = try await redeeming(id, proof)
    return (before, try await redeemed(before, proof, context))
  }

  private func redeeming(_ id: QRSessionID, _ proof: RedeemProof) async throws(RPCError) -> QRSession {
    let found = try await stored { () throws(StorageError) in try await self.store.session(id) }
    guard let before = found else { throw .expired }
    show(before)
    if let clientID = proof.clientID, clientID != before.request.clientID { throw .wrongClient }
    return before
  }

  private func redeemed(
    _ before: QRSession, _ proof: RedeemProof, _ context: ServerContext
  ) async throws(RPCError) -> QRSession {
    let (id, now) = (before.id, clock.now())
    var session = before
    switch session.redeem(verifier: proof.verifier, at: now) {
    case .redeemed, .repeated:
      try checkKey(session, proof, context)
      return session
    case .reused:
      record(.reused, session, subject: session.claim?.subject, address: context.peer.address)
      try await revoke(id, "the code was used again")
      gate.noteReuse(of: id, by: proof.verifier, base: settings.interval, at: clock.now())
      throw .alreadyUsed
    case .wrongVerifier:
      gate.noteGuess(of: id, session.request.challenge)
      record(.wrongVerifier, session, address: context.peer.address)
      throw .wrongVerifier
    case .notRedeemable:
      switch session.state(at: now) {
      case .denied: throw .accessDenied
      case .cancelled: throw .cancelled
      case .pending, .scanned, .confirmed, .expired, .consumed: throw .expired
      }
    }
  }

  /// A grant that is a key's goes to nobody who cannot sign with it: otherwise a person could be made to take in a key
  /// that is somebody else's. Nor does one of a client whose devices are known by their keys (S12).
  private func checkKey(_ session: QRSession, _ proof: RedeemProof, _ context: ServerContext) throws(RPCError) {
    guard session.request.purpose.needsDeviceKey || settings.trustedInitiators.needsKey(session.request.clientID)
    else { return }
    guard let signed = proof.signature else {
      throw .invalid("device_proof", "is needed: the device key's signature over the device code")
    }
    guard let bytes = session.request.deviceKey,
      let key = try? P256PublicKey(x: Array(bytes.prefix(32)), y: Array(bytes.dropFirst(32))),
      key.verify(signature: signed.signature, message: signed.message)
    else {
      record(.wrongDeviceProof, session, address: context.peer.address)
      throw .wrongDeviceProof
    }
  }

  /// Where identity refuses for good, because who agreed has signed out or is disabled by now, the code is over: no
  /// later poll could collect it.
  func issue(
    _ before: QRSession,
    as session: QRSession,
    turn: Int64,
    until end: ContinuousClock.Instant?,
    _ context: ServerContext
  ) async throws(RPCError) -> RedeemedGrant {
    do throws(RPCError) {
      return try await grants.issue(session, turn: turn, deadline: end)
    } catch {
      guard let reason = error.details.reason, Self.finalRefusals.contains(reason) else { throw error }
      try await cancel(before, address: context.peer.address)
      throw .confirmerGone
    }
  }

  /// Ends what was issued for a session, whatever becomes of the call: who goes away keeps no stolen sign-in alive.
  func revoke(_ id: QRSessionID, _ reason: String) async throws(RPCError) {
    let grants = grants
    _ = try await CallDeadline.outliving { () async throws(RPCError) in try await grants.revoke(id, reason: reason) }
  }

  /// What an earlier poll asked for that was cancelled may come to identity after this: its turn is over then.
  private func issueAlone(
    _ before: QRSession, as session: QRSession, _ context: ServerContext
  ) async throws(RPCError) -> RedeemedGrant {
    do throws(RPCError) {
      let turn = gate.nextTurn(at: clock.now())
      return try await issue(before, as: session, turn: turn, until: context.deadline, context)
    } catch {
      guard error.isTurnOver else { throw error }
      throw RPCError(.unavailable, "identity was asked in a later turn", retryAfter: .seconds(1))
    }
  }

  private static let finalRefusals: Set<String> = ["CONFIRMER_GONE", "LOGIN_REQUIRED", "QR_REVOKED"]

  /// False when somebody else changed the session.
  private func isHandedOver(_ before: QRSession, _ session: QRSession, _ now: Timestamp) async throws(RPCError) -> Bool
  {
    if let isOurs = try await exchanged(before, for: session, at: now) { return isOurs }
    let found = try await stored { () throws(StorageError) in try await self.store.session(before.id) }
    if found == before { throw RPCError(.unavailable, "the session could not be stored", retryAfter: .seconds(1)) }
    return found == session
  }

  private func handOver(
    _ before: QRSession,
    _ session: QRSession,
    _ proof: RedeemProof,
    _ context: ServerContext
  ) async throws(RPCError) -> RedeemedGrant {
    let now = session.consumed ?? clock.now()
    let grant = try await issueAlone(before, as: session, context)
    guard try await isHandedOver(before, session, now) else {
      // Cancelled in between: nobody may keep what was issued.
      try await revoke(before.id, "the session was cancelled while it was redeemed")
      throw .cancelled
    }
    gate.remember(grant, of: session.id, for: proof.verifier, until: now + QRLimits.repeatWindow)
    tell(session)
    ended(session)
    record(.redeemed, session, subject: session.claim?.subject, address: context.peer.address)
    return grant
  }
}

extension RPCError {
  /// Identity was asked in this turn, or a later one, before.
  var isTurnOver: Bool { details.reason == "QR_TURN_OVER" }
}
