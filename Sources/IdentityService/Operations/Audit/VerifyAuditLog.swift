import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuditHandlers {
  package func verifyAuditLog(
    _ request: IdentityV1.VerifyAuditLogRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.VerifyAuditLogResponse {
    let finding = try await stored { () throws(StorageError) in
      try await AuditVerification(domain, auditChain).run()
    }
    guard let finding else { throw RPCError(.cancelled, "the call was cancelled") }
    if !finding.isIntact {
      finding.accuse(in: logger)
    }
    return IdentityV1.VerifyAuditLogResponse(
      intact: finding.isIntact,
      verified: finding.verified,
      head: finding.verified == 0 ? "" : Base64URL.encode(finding.head)
    )
  }
}
