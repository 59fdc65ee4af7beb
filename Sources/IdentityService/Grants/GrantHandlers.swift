import Domain
import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.GrantService`, one file for each method. Only other services get here.
package struct GrantHandlers: IdentityV1.GrantService, Deciding {
  let domain: IdentityDomain
  let qrGrants: any QRGrantStore
  let merges: any MergeStore
  let links: any LinkStore
  let endedSessions: EndedSessions
  let guideWatches: GuideWatches
  let tokens: TokenIssuer
  let surroundings: Surroundings
}
