import Domain
import LatchkeyProtos

/// Answers `latchkey.identity.v1.GrantService`, one file for each method. Only other services get here.
package struct GrantHandlers: IdentityV1.GrantService, Deciding {
  let domain: IdentityDomain
  let endedSessions: EndedSessions
  let notices: NoticeCourier
  let tokens: TokenIssuer
  let surroundings: Surroundings
}
