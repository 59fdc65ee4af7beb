import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuditHandlers {
  /// Makes every link anew and compares, page by page, so that other readers get their turns.
  package func verifyAuditLog(
    _ request: IdentityV1.VerifyAuditLogRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.VerifyAuditLogResponse {
    var sequence: Int64 = 0
    var link = AuditChain.origin
    while !context.isCancelled {
      let position = sequence
      let events = try await core.stored { () throws(StorageError) in
        try await core.audit.events(after: position, of: nil, limit: Limits.auditPage)
      }
      for event in events {
        let expected = core.auditChain.link(after: link, sequence: sequence + 1, event.note)
        guard event.sequence == sequence + 1, ConstantTime.equals(event.link, expected) else {
          core.logger.critical("the audit log was tampered with", metadata: ["sequence": "\(sequence + 1)"])
          return answer(isIntact: false, sequence, link)
        }
        (sequence, link) = (event.sequence, event.link)
      }
      if events.count < Limits.auditPage { return answer(isIntact: true, sequence, link) }
    }
    throw RPCError(.cancelled, "the call was cancelled")
  }

  private func answer(
    isIntact: Bool, _ sequence: Int64, _ link: [UInt8]
  ) -> IdentityV1.VerifyAuditLogResponse {
    IdentityV1.VerifyAuditLogResponse(
      intact: isIntact, verified: sequence, head: sequence == 0 ? "" : Base64URL.encode(link))
  }
}
