import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

/// Answers `latchkey.identity.v1.AuthService`, one file for each method.
package struct AuthHandlers: IdentityV1.AuthService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }
}
