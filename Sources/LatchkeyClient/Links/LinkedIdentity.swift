import LatchkeyProtos

/// A credential that leads to the account, masked.
public struct LinkedIdentity: Sendable, Equatable {
  public let identityID: String
  /// Such as `email` or `phone`.
  public let kind: String
  public let mask: String
  /// Milliseconds since 1970 in UTC; nil when the service does not say.
  public let linkedAt: Int64?
  /// False for an address that no code showed to be the owner's.
  public let verified: Bool

  init(_ identity: IdentityV1.LinkedIdentity) {
    identityID = identity.identityID
    kind = identity.kind
    mask = identity.mask
    linkedAt = identity.linkedAt?.millisecondsSinceEpoch
    verified = identity.verified
  }
}
