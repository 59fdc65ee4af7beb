/// A session about to begin: all of it but whose it is, which only the store can tell for certain.
package struct SessionDraft: Sendable {
  package let id: SessionID
  package let client: ClientID
  package let method: SignInMethod
  package let label: DisplayText?
  package let platform: DisplayText?
  /// Nil grants what the kind of subject may have.
  package let scope: Scope?
  /// The network address that asks for it, for the record.
  package let address: String
  package let boundKeyThumbprint: String?
  package let refreshSeed: RedactedSecret
  package let now: Timestamp
  private let lifetimes: TokenLifetimes

  package init(
    client: ClientID,
    method: SignInMethod,
    label: DisplayText? = nil,
    platform: DisplayText? = nil,
    scope: Scope? = nil,
    address: String = "",
    boundKeyThumbprint: String? = nil,
    lifetimes: TokenLifetimes,
    at now: Timestamp,
    random: RandomSource
  ) {
    self.id = SessionID(from: random)
    self.client = client
    self.method = method
    self.label = label
    self.platform = platform
    self.scope = scope
    self.address = address
    self.boundKeyThumbprint = boundKeyThumbprint
    self.refreshSeed = RedactedSecret(random.bytes(16))
    self.now = now
    self.lifetimes = lifetimes
  }

  /// The session that takes an earlier one's place without a new sign-in: it can do no more and lasts no longer.
  package func session(continuing earlier: Session, deviceKeyThumbprint: String?) -> Session {
    let lifetimes = lifetimes.family(isGuest: earlier.isGuest, method: earlier.method)
    let expiry = earlier.family.absoluteExpiry
    return Session(
      id: id,
      subject: earlier.subject,
      isGuest: earlier.isGuest,
      client: client,
      scope: earlier.scope,
      method: earlier.method,
      device: Session.Device(
        keyThumbprint: deviceKeyThumbprint ?? earlier.device.keyThumbprint,
        label: label ?? earlier.device.label,
        platform: platform ?? earlier.device.platform
      ),
      boundKeyThumbprint: earlier.boundKeyThumbprint ?? boundKeyThumbprint,
      refreshSeed: refreshSeed,
      authenticatedAt: earlier.authenticatedAt,
      family: RefreshFamily(
        generation: 1, rotatedAt: now, idleExpiry: min(now + lifetimes.idle, expiry), absoluteExpiry: expiry),
      confirmedAt: earlier.confirmedAt
    )
  }

  /// The session of a device that a QR code bound to this account and that comes back by its key. It is that code's
  /// still: nobody has proved who they are since then, so it may do what was agreed to and no more, and its tokens are
  /// the key's.
  package func session(of account: SubjectID, boundBy keyThumbprint: String, at bound: Timestamp, scope: Scope)
    -> Session
  {
    Session(
      id: id,
      subject: account,
      isGuest: false,
      client: client,
      scope: scope,
      method: .qr,
      device: Session.Device(keyThumbprint: keyThumbprint, label: label, platform: platform),
      boundKeyThumbprint: keyThumbprint,
      refreshSeed: refreshSeed,
      authenticatedAt: bound,
      family: RefreshFamily(beginningAt: now, lifetimes: lifetimes.family(isGuest: false, method: .qr))
    )
  }

  /// The session of this subject, on the device with this key.
  ///
  /// - Parameter method: nil for the draft's own; a link ticket knows better.
  package func session(
    of subject: SubjectID, isGuest: Bool, deviceKeyThumbprint: String?, method: SignInMethod? = nil
  ) -> Session {
    let method = method ?? self.method
    let allowed = isGuest ? Scope.basic : Scope.account
    return Session(
      id: id,
      subject: subject,
      isGuest: isGuest,
      client: client,
      scope: scope?.intersection(allowed) ?? allowed,
      method: method,
      device: Session.Device(keyThumbprint: deviceKeyThumbprint, label: label, platform: platform),
      boundKeyThumbprint: boundKeyThumbprint,
      refreshSeed: refreshSeed,
      authenticatedAt: now,
      family: RefreshFamily(beginningAt: now, lifetimes: lifetimes.family(isGuest: isGuest, method: method))
    )
  }
}
