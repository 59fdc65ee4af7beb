import LatchkeyModel

/// An identifier that leads to an account.
package struct Identity: Sendable, Equatable {
  package var kind: AccountIdentifier.Kind
  /// The canonical form.
  package var value: String
  package var mask: String
  package var linkedAt: Timestamp
  /// When its owner showed by a code that an address is theirs.
  package var verifiedAt: Timestamp?

  package init(
    kind: AccountIdentifier.Kind, value: String, mask: String, linkedAt: Timestamp, verifiedAt: Timestamp? = nil
  ) {
    self.verifiedAt = verifiedAt
    self.kind = kind
    self.value = value
    self.mask = mask
    self.linkedAt = linkedAt
  }

  /// False for an address that nobody showed to be theirs. What is no address is proven by its own secret or provider.
  package var isProven: Bool { verifiedAt != nil || !kind.isAddress }
}
