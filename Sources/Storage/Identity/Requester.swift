import LatchkeyModel

/// Who asks or tries, as far as it matters in whose share that counts.
package struct Requester: Sendable, Equatable {
  /// The session of the guest who asks, by which a device is known.
  package var guestSession: SessionID?
  /// Thumbprint of a key that the call proved (RFC 9449).
  package var provenKey: String?
  /// The network that the call comes from.
  package var source: String

  package init(guestSession: SessionID? = nil, provenKey: String? = nil, source: String) {
    self.guestSession = guestSession
    self.provenKey = provenKey
    self.source = source
  }
}
