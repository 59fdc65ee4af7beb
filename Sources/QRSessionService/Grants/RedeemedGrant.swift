import LatchkeyProtos

/// What the initiating device gets for a confirmed session: its own tokens, and whose they are; or the confirmation of
/// an action, and no tokens.
package struct RedeemedGrant: Sendable, Equatable {
  package var tokens: CommonV1.TokenSet?
  package var subject: CommonV1.Subject?
  package var profile: CommonV1.Profile?
  package var storageNamespace = ""
  package var confirmation: QRV1.Confirmation?

  package init(
    tokens: CommonV1.TokenSet, subject: CommonV1.Subject?, profile: CommonV1.Profile?, storageNamespace: String = ""
  ) {
    self.storageNamespace = storageNamespace
    self.tokens = tokens
    self.subject = subject
    self.profile = profile
  }

  package init(confirmation: QRV1.Confirmation) {
    self.confirmation = confirmation
  }
}
