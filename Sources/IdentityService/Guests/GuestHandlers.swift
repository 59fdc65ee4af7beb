import LatchkeyProtos

/// Answers `latchkey.identity.v1.GuestService`, one file for each method.
package struct GuestHandlers: IdentityV1.GuestService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }
}
