import Domain
import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.AuditService`, one file for each method. Only holders of the service credential get
/// here.
package struct AuditHandlers: IdentityV1.AuditService, Deciding {
  let domain: IdentityDomain
  let auditChain: AuditChain
  let surroundings: Surroundings
}
