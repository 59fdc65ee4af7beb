/// A signed-in device: who, on what, since when, and the refresh-token family that keeps it signed in.
package struct Session: Sendable, Equatable {
  /// Why a session ended. Stored: never renumbered.
  package enum End: Int64, Sendable, CaseIterable {
    case loggedOut = 1
    /// A newer session of the same subject on the same device took its place.
    case replaced = 2
    case refreshReused = 3
    case revoked = 4
    case promoted = 5
    case merged = 6
    case switchedAway = 7
    case qrRevoked = 8
    case expired = 9
    case subjectDeleted = 10
    /// The guest or account moved to another device, which took its place.
    case transferred = 11
    /// Two devices hold the same key.
    case cloned = 12
    /// Somebody who runs the service ended it.
    case administrator = 13
    case subjectDisabled = 14
  }

  /// The device that the session runs on, as it described itself.
  package struct Device: Sendable, Equatable {
    /// SHA-256 thumbprint (RFC 7638) of the device key; nil when the device has shown none.
    package var keyThumbprint: String?
    package var label: DisplayText?
    package var platform: DisplayText?

    package init(keyThumbprint: String? = nil, label: DisplayText? = nil, platform: DisplayText? = nil) {
      self.keyThumbprint = keyThumbprint
      self.label = label
      self.platform = platform
    }
  }

  package let id: SessionID
  package let subject: SubjectID
  /// What the subject was when the session began: promotion and merging end the guest's sessions.
  package let isGuest: Bool
  package let client: ClientID
  package let scope: Scope
  package let method: SignInMethod
  package let device: Device
  /// Thumbprint of the key that the tokens are bound to (RFC 9449), nil for bearer tokens.
  package let boundKeyThumbprint: String?
  /// Mixed into each refresh token, so that the service's secret alone makes none.
  package let refreshSeed: RedactedSecret
  package let beganAt: Timestamp
  /// When a person last proved who they are: here or, where somebody let this session in, there.
  package var authenticatedAt: Timestamp
  /// By what; nil where nobody knows, as for sessions of an earlier version.
  package var provenBy: SignInMethod?
  package var family: RefreshFamily
  package var ended: Ending?
  /// When its owner said that it is theirs: from another session, or by a proof of theirs in this one.
  package var confirmedAt: Timestamp?

  package struct Ending: Sendable, Equatable {
    package let at: Timestamp
    package let why: End

    package init(at: Timestamp, why: End) {
      self.at = at
      self.why = why
    }
  }

  package init(
    id: SessionID,
    subject: SubjectID,
    isGuest: Bool,
    client: ClientID,
    scope: Scope,
    method: SignInMethod,
    device: Device,
    boundKeyThumbprint: String? = nil,
    refreshSeed: RedactedSecret,
    beganAt: Timestamp? = nil,
    authenticatedAt: Timestamp,
    provenBy: SignInMethod? = nil,
    family: RefreshFamily,
    ended: Ending? = nil,
    confirmedAt: Timestamp? = nil
  ) {
    self.id = id
    self.subject = subject
    self.isGuest = isGuest
    self.client = client
    self.scope = scope
    self.method = method
    self.device = device
    self.boundKeyThumbprint = boundKeyThumbprint
    self.refreshSeed = refreshSeed
    self.beganAt = beganAt ?? authenticatedAt
    self.authenticatedAt = authenticatedAt
    self.provenBy = provenBy
    self.family = family
    self.ended = ended
    self.confirmedAt = confirmedAt
  }

  /// Whether it may change who gets in: a code that somebody was talked into scanning must neither lock the owner out
  /// nor let more people in.
  package var isConfirmed: Bool { authority.isConfirmed }

  /// Whether somebody proved in it who they are since a token was made that says `provenAt`, in whole seconds
  /// (`auth_time`).
  package func wasSteppedUp(since provenAt: Timestamp?) -> Bool {
    guard let provenAt else { return true }
    return authenticatedAt.secondsSinceEpoch > provenAt.secondsSinceEpoch
  }

  package func isLive(at now: Timestamp) -> Bool {
    ended == nil && !family.isExpired(at: now)
  }
}
