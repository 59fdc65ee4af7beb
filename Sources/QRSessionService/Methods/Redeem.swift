import GRPC
import LatchkeyModel
import Storage

/// What a redeeming poll proves itself by.
struct RedeemProof: Sendable {
  /// The digest that the challenge is compared with (RFC 7636 section 4.6).
  let verifier: Digest256
  /// The client that asks, where the protocol says which.
  let clientID: ClientID?
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
    let result = await gate.alone(in: id) {
      do throws(RPCError) {
        return Result<RedeemedGrant, RPCError>.success(try await self.redeemAlone(id, proof, context))
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
    let found = try await stored { () throws(StorageError) in try await self.store.session(id) }
    guard let before = found else { throw .expired }
    if let clientID = proof.clientID, clientID != before.request.clientID { throw .wrongClient }
    let now = clock.now()
    if let grant = gate.answer(of: id, for: proof.verifier, at: now) { return grant }
    var session = before
    switch session.redeem(verifier: proof.verifier, at: now) {
    case .redeemed:
      return try await handOver(before, session, proof, now, context)
    case .repeated:
      // A restart lost the answer. Identity ends what it issued before.
      let grant = try await grants.issue(session, deadline: context.deadline)
      gate.remember(grant, of: id, for: proof.verifier, until: (session.consumed ?? now) + QRLimits.repeatWindow)
      return grant
    case .reused:
      record(.reused, session, subject: session.claim?.subject, address: context.peer.address)
      _ = try await grants.revoke(id, reason: "the code was used again")
      throw .alreadyUsed
    case .wrongVerifier:
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

  private func handOver(
    _ before: QRSession,
    _ session: QRSession,
    _ proof: RedeemProof,
    _ now: Timestamp,
    _ context: ServerContext
  ) async throws(RPCError) -> RedeemedGrant {
    let grant = try await grants.issue(session, deadline: context.deadline)
    let isOurs = try await stored { () throws(StorageError) in
      try await self.store.exchange(before, for: session, at: now)
    }
    guard isOurs else {
      // Cancelled in between: nobody may keep what was issued.
      _ = try await grants.revoke(before.id, reason: "the session was cancelled while it was redeemed")
      throw .cancelled
    }
    gate.remember(grant, of: session.id, for: proof.verifier, until: now + QRLimits.repeatWindow)
    table.publish(session)
    record(.redeemed, session, subject: session.claim?.subject, address: context.peer.address)
    return grant
  }
}
