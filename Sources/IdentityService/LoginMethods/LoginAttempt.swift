import LatchkeyModel

/// Who tries to sign in, besides what they present.
struct LoginAttempt: Sendable {
  let client: ClientID
  /// The session of the guest who signs in, by which a device is known.
  let guest: SessionID?
  /// Thumbprint of the key that the call proved (RFC 9449); the session will be bound to it.
  let provenKey: String?

  init(client: ClientID, guest: SessionID? = nil, provenKey: String? = nil) {
    self.client = client
    self.guest = guest
    self.provenKey = provenKey
  }
}
