import Callers
import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import NIOCore
import Storage

/// How a grant is handed over where several instances may be asked for it at once (S5, C1).
///
/// One instance at a time may try, which storage decides; identity ends what an earlier try issued. What is handed over is
/// stored with the session's consumption, sealed by the verifier that only its poller has: whichever instance is asked
/// again within 30 s gives the same answer.
///
/// Each turn has a higher number than those before it, which identity compares: what is asked for in an older turn than the
/// last one begins and ends nothing, however late it comes. So a turn is given up also while identity may still be at it: when
/// the poll was cancelled or its time was over, or identity's connection broke. Besides, an instance asks only while
/// identity's time for it ends within the turn, so that nobody takes a turn over whose answer is on its way. A poll that has
/// more time than one turn takes the next one, for as long as it has.
extension QRSessionAPI {
  func redeemTogether(
    _ shared: SharedSessions, _ id: QRSessionID, _ proof: RedeemProof, _ context: ServerContext
  ) async throws(RPCError) -> RedeemedGrant {
    var attempt = Attempt(
      shared: shared, holder: random.bytes(16), proof: proof, context: context, end: Self.end(of: context))
    do throws(RPCError) {
      return try await redeemInTurn(id, proof, context, &attempt)
    } catch {
      // Nobody waits for that: other polls may be waiting for this one.
      if attempt.isUnsure { Task { [attempt] in await giveUp(id, attempt) } }
      throw error
    }
  }

  private func redeemInTurn(
    _ id: QRSessionID, _ proof: RedeemProof, _ context: ServerContext, _ attempt: inout Attempt
  ) async throws(RPCError) -> RedeemedGrant {
    var pause = Limits.redemptionPause
    while true {
      let (before, session) = try await redeemable(id, proof, context)
      if let grant = try await handOver(before, session, &attempt) { return grant }
      guard ContinuousClock.now + Limits.leastRedemptionTurn < attempt.end else {
        let reason = attempt.delay ?? "the code is being handed over elsewhere"
        throw RPCError(.unavailable, reason, retryAfter: .seconds(1))
      }
      guard (try? await Task.sleep(for: pause)) != nil else { throw RPCError(.cancelled, "the poll was cancelled") }
      pause = min(pause * 2, Limits.longestRedemptionPause)
    }
  }

  /// After which a poll is told that it was in vain.
  private static func end(of context: ServerContext) -> ContinuousClock.Instant {
    guard let deadline = context.deadline else { return .now + Limits.redemptionPatience }
    let left = ContinuousClock.now.duration(to: deadline)
    return deadline - min(left / 10, Limits.timeToSaySo)
  }

  /// One poll's try.
  private struct Attempt {
    let shared: SharedSessions
    let holder: [UInt8]
    let proof: RedeemProof
    let context: ServerContext
    let end: ContinuousClock.Instant
    /// Whether the turn may be this poll's without anybody having said so.
    var isUnsure = false
    /// What is said of identity, which did not answer within the last turn.
    var delay: String?
  }

  /// Nil: somebody else is at it, or what became of it has to be looked up.
  private func handOver(
    _ before: QRSession, _ session: QRSession, _ attempt: inout Attempt
  ) async throws(RPCError) -> RedeemedGrant? {
    let store = attempt.shared.store
    let known = try await stored { () throws(StorageError) in try await store.redemption(of: before.id) }
    if let known, let answer = known.answer, clock.now() <= known.until {
      guard let grant = attempt.proof.open(answer, of: before.id) else { throw .wrongVerifier }
      // Stored by this very try, whose outcome nobody told.
      if known.holder == attempt.holder { noteRedeemed(before, attempt.context) }
      return grant
    }
    let now = clock.now()
    let taken = ContinuousClock.now
    guard let turn = try await takeTurn(of: before.id, &attempt) else { return nil }
    guard ContinuousClock.now - taken < Limits.redemptionTurn - Limits.grantTimeout else {
      // The database took too long over it for the rest of the turn to be enough.
      await giveUp(before.id, attempt)
      return nil
    }
    do throws(RPCError) {
      return try await issueAndStore(before, session, &attempt, turn, now)
    } catch {
      // Somebody else's is the turn by now.
      if error.isTurnOver { return nil }
      await giveUp(before.id, attempt)
      throw error
    }
  }

  /// Nil: it is somebody else's, or nobody said. Whoever has it without knowing takes it once more.
  private func takeTurn(of id: QRSessionID, _ attempt: inout Attempt) async throws(RPCError) -> Int64? {
    do throws(StorageError) {
      let turn = try await attempt.shared.store.takeRedemption(of: id, by: attempt.holder, for: Limits.redemptionTurn)
      attempt.isUnsure = false
      return turn
    } catch {
      let refusal = refusal(error)
      guard error.fault == .outcomeUnknown else { throw refusal }
      attempt.isUnsure = true
      return nil
    }
  }

  private func issueAndStore(
    _ before: QRSession, _ session: QRSession, _ attempt: inout Attempt, _ turn: Int64, _ now: Timestamp
  ) async throws(RPCError) -> RedeemedGrant? {
    let grant: RedeemedGrant
    do throws(RPCError) {
      let until = min(attempt.end, .now + Limits.grantTimeout)
      grant = try await issue(before, as: session, turn: turn, until: until, attempt.context)
    } catch {
      guard error.code == .deadlineExceeded else { throw error }
      // The turn's time, which is not the poll's.
      attempt.delay = error.message
      await giveUp(before.id, attempt)
      return nil
    }
    let redemption = QRRedemption(
      holder: attempt.holder, until: (session.consumed ?? now) + QRLimits.repeatWindow,
      answer: try attempt.proof.seal(grant, of: before.id))
    let outcome: QRRedemption.Outcome
    do throws(StorageError) {
      outcome = try await attempt.shared.store.redeem(before, for: session, handingOver: redemption, at: now)
    } catch {
      guard error.fault == .outcomeUnknown else { throw refusal(error) }
      _ = refusal(error)
      attempt.isUnsure = true
      return nil
    }
    switch outcome {
    case .done:
      tell(session)
      if session.version != before.version { noteRedeemed(session, attempt.context) }
      return grant
    case .superseded:
      // Whoever took over ends what was issued here.
      return nil
    case .changed:
      // Cancelled in between: nobody may keep what was issued.
      try await revoke(before.id, "the session was cancelled while it was redeemed")
      throw .cancelled
    }
  }

  /// Lets the next one try at once, at best; also when the poll was cancelled, or its time is over.
  private func giveUp(_ id: QRSessionID, _ attempt: Attempt) async {
    let (store, holder) = (attempt.shared.store, attempt.holder)
    _ = try? await CallDeadline.outliving { () async throws(StorageError) in
      try await store.giveUpRedemption(of: id, by: holder)
    }
  }

  private func noteRedeemed(_ session: QRSession, _ context: ServerContext) {
    ended(session)
    record(.redeemed, session, subject: session.claim?.subject, address: context.peer.address)
  }
}

extension RedeemProof {
  private var key: [UInt8] { HMACSHA256.authenticate(Array("latchkey qr answer 1".utf8), key: text) }

  func seal(_ grant: RedeemedGrant, of session: QRSessionID) throws(RPCError) -> [UInt8] {
    var bytes = ByteBuffer()
    try QRV1.PollSessionResponse(
      tokens: grant.tokens, subject: grant.subject, profile: grant.profile, confirmation: grant.confirmation,
      storageNamespace: grant.storageNamespace
    ).encode(into: &bytes)
    return AES256GCM.seal(Array(bytes.readableBytesView), key: key, context: session.bytes)
  }

  func open(_ answer: [UInt8], of session: QRSessionID) -> RedeemedGrant? {
    guard let bytes = AES256GCM.open(answer, key: key, context: session.bytes),
      let response = try? QRV1.PollSessionResponse(decoding: ByteBuffer(bytes: bytes))
    else { return nil }
    if let confirmation = response.confirmation { return RedeemedGrant(confirmation: confirmation) }
    guard let tokens = response.tokens else { return nil }
    return RedeemedGrant(
      tokens: tokens, subject: response.subject, profile: response.profile,
      storageNamespace: response.storageNamespace)
  }
}
