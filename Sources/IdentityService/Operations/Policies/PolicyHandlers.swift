import LatchkeyProtos
import ServiceRuntime

/// Answers `latchkey.identity.v1.PolicyService`, one file for each method.
package struct PolicyHandlers: IdentityV1.PolicyService, Surrounded {
  let policies: PolicyFile
  let tokens: TokenIssuer
  let surroundings: Surroundings
}
