/// What an app gets for a confirmed action: the service's signed word that this person agreed to exactly this.
public struct QRConfirmation: Sendable, Equatable {
  /// A JSON Web Token (ES256, type `latchkey-confirmation+jwt`) that verifies with the keys that access tokens verify
  /// with.
  public let jws: String
  /// Milliseconds since the epoch.
  public let confirmedAt: Int64?
  /// SHA-256 of the action, base64url.
  public let actionDigest: String
}
