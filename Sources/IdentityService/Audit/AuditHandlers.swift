import LatchkeyProtos

/// Answers `latchkey.identity.v1.AuditService`, one file for each method. Only holders of the service credential get
/// here.
package struct AuditHandlers: IdentityV1.AuditService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }
}
