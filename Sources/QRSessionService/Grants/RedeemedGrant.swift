import LatchkeyProtos

/// What the initiating device gets for a confirmed session: its own tokens, and whose they are.
package struct RedeemedGrant: Sendable, Equatable {
  package var tokens: CommonV1.TokenSet
  package var subject: CommonV1.Subject?
  package var profile: CommonV1.Profile?

  package init(tokens: CommonV1.TokenSet, subject: CommonV1.Subject?, profile: CommonV1.Profile?) {
    self.tokens = tokens
    self.subject = subject
    self.profile = profile
  }
}
