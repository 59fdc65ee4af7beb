import LatchkeyModel

/// An identifier that leads to an account.
package struct Identity: Sendable, Equatable {
  package var kind: AccountIdentifier.Kind
  /// The canonical form.
  package var value: String
  package var mask: String
  package var linkedAt: Timestamp

  package init(kind: AccountIdentifier.Kind, value: String, mask: String, linkedAt: Timestamp) {
    self.kind = kind
    self.value = value
    self.mask = mask
    self.linkedAt = linkedAt
  }
}
