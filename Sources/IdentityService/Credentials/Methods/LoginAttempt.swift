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
  /// The only account that may be proven: its owner calls. What leads to another one is looked at no further than what
  /// leads nowhere, and each try counts for this one. Nil for any account.
  let account: SubjectID?
  /// Keeps the try of a code that is not right, for a request that may have been answered before.
  let missed: MissedTry?

  init(
    client: ClientID, guest: SessionID? = nil, provenKey: String? = nil, source: String, account: SubjectID? = nil,
    missed: MissedTry? = nil
  ) {
    self.client = client
    self.guest = guest
    self.provenKey = provenKey
    self.source = source
    self.account = account
    self.missed = missed
  }

  var requester: Requester { Requester(guestSession: guest, provenKey: provenKey, source: source) }

  /// Whether an account that something leads to may be proven.
  func admits(_ found: SubjectID) -> Bool { account == nil || account == found }
}
