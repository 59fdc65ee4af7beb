import LatchkeyProtos

/// Answers `latchkey.identity.v1.GrantService`, one file for each method. Only other services get here.
package struct GrantHandlers: IdentityV1.GrantService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }
}
