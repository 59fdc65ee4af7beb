import Domain
import LatchkeyModel

/// Who tries to sign in, besides what they present.
struct LoginAttempt: Sendable {
  let client: ClientID
  /// The session of the guest who signs in, by which a device is known.
  let guest: SessionID?
  /// Thumbprint of the key that the call proved (RFC 9449); the session will be bound to it.
  let provenKey: String?
  /// The network that the call comes from.
  let source: String

  init(client: ClientID, guest: SessionID? = nil, provenKey: String? = nil, source: String) {
    self.client = client
    self.guest = guest
    self.provenKey = provenKey
    self.source = source
  }

  var requester: Requester { Requester(guestSession: guest, provenKey: provenKey, source: source) }
}
