import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuditHandlers {
  /// Security events, oldest first.
  package func listAuditEvents(
    _ request: IdentityV1.ListAuditEventsRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ListAuditEventsResponse {
    guard request.after >= 0 else { throw .invalid("after", "must not be negative") }
    guard (0...Int32(Limits.auditPage)).contains(request.limit) else {
      throw .invalid("limit", "must be at most \(Limits.auditPage)")
    }
    let subject = request.sub.isEmpty ? nil : try RequestFields.subjectID(request.sub, "sub", in: cell)
    let limit = request.limit == 0 ? 100 : Int(request.limit)
    let events = try await look(ListEvents(after: request.after, of: subject, limit: limit))
    return IdentityV1.ListAuditEventsResponse(
      events: events.map { event in
        IdentityV1.AuditEvent(
          sequence: event.sequence,
          at: GoogleProtobuf.Timestamp(event.note.at),
          kind: event.note.kind.rawValue,
          sub: event.note.subject?.description ?? "",
          sid: event.note.session?.description ?? "",
          address: event.note.address,
          detail: event.note.detail,
          link: Base64URL.encode(event.link)
        )
      })
  }
}
