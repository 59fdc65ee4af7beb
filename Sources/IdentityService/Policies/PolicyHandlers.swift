import LatchkeyProtos

/// Answers `latchkey.identity.v1.PolicyService`, one file for each method.
package struct PolicyHandlers: IdentityV1.PolicyService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }
}
