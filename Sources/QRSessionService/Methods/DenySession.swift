import GRPC
import LatchkeyModel
import LatchkeyProtos

extension QRSessionAPI {
  package func denySession(
    _ request: QRV1.DenySessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.DenySessionResponse {
    let confirmer = try confirmer(context)
    try admission.decide(by: confirmer.subject, at: clock.now())
    return try await spendingNothingInOutages(confirmer) { () throws(RPCError) in
      try await deny(request, by: confirmer, context)
    }
  }

  private func deny(
    _ request: QRV1.DenySessionRequest, by confirmer: QRConfirmer, _ context: ServerContext
  ) async throws(RPCError) -> QRV1.DenySessionResponse {
    let (found, ticket) = try await find(ticket: request.confirmTicket)
    let (outcome, session) = try await decide(on: found) { session, now in
      session.deny(by: confirmer, ticket: ticket, at: now)
    }
    switch outcome {
    case .denied:
      admission.decisionWasRight(by: confirmer.subject, at: clock.now())
      ended(session)
      record(.denied, session, subject: confirmer.subject, address: context.peer.address)
      if request.reportAbuse {
        record(.abuseReported, session, subject: confirmer.subject, address: session.request.initiator.address)
      }
      return QRV1.DenySessionResponse()
    case .alreadyDenied:
      return QRV1.DenySessionResponse()
    case .refused:
      throw .noSuchCode
    }
  }

  /// Gives the decision back that could not be looked at (S26).
  func spendingNothingInOutages<Value>(
    _ confirmer: QRConfirmer, _ body: () async throws(RPCError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(RPCError) {
      return try await body()
    } catch {
      if [.unavailable, .deadlineExceeded, .internal].contains(error.code) {
        admission.decisionWasRight(by: confirmer.subject, at: clock.now())
      }
      throw error
    }
  }
}
