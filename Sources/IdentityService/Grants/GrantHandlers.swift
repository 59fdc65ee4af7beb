import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.GrantService`, one file for each method. Only other services get here.
package struct GrantHandlers: IdentityV1.GrantService, Surrounded {
  let qrGrants: any QRGrantStore
  let merges: any MergeStore
  let links: any LinkStore
  let sessions: any SessionStore
  let endedSessions: EndedSessions
  let guideWatches: GuideWatches
  let tokens: TokenIssuer
  let surroundings: Surroundings
}
