import Domain
import LatchkeyProtos
import ServiceRuntime

/// Answers `latchkey.identity.v1.GuestService`, one file for each method.
package struct GuestHandlers: IdentityV1.GuestService, Deciding {
  let domain: IdentityDomain
  let newGuests: NewGuests
  let policies: PolicyFile
  let export: SubjectExport
  let removal: SubjectRemoval
  let tokens: TokenIssuer
  let callers: CallerChecks
  let surroundings: Surroundings
}
