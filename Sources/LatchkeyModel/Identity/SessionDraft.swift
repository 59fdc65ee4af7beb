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
  package var boundKeyThumbprint: String?
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

  // MARK: - What it may do

  /// The authority of who proved just now who they are.
  package func proven(isGuest: Bool) -> Authority {
    let allowed = isGuest ? Scope.basic : Scope.account
    return Authority(
      scope: scope?.intersection(allowed) ?? allowed,
      method: method,
      provenBy: method,
      provenAt: now,
      keyThumbprint: boundKeyThumbprint,
      expiry: now + lifetimes.family(isGuest: isGuest, method: method).absolute
    )
  }

  /// What goes on, on the same device, of an authority that was there before.
  package func continuing(_ source: Authority, isGuest: Bool = false) -> Authority {
    source.derived(
      scope: scope, method: source.method, agreedAt: now, until: limit(isGuest, source.method),
      for: .sameDevice(provenKey: boundKeyThumbprint))
  }

  /// What another device gets of a session whose owner agreed.
  ///
  /// - Parameters:
  ///   - provenAt: what the token says that they agreed with: it may be of before a step-up.
  ///   - takesPlace: the old device is signed out for it.
  package func handedOn(
    by source: Session, provenAt: Timestamp, agreedAt: Timestamp? = nil, takesPlace: Bool = false
  ) -> Authority {
    source.authority.shown(provenAt: provenAt).derived(
      scope: scope, method: method, agreedAt: agreedAt ?? now, until: limit(source.isGuest, method),
      for: .otherDevice(provenKey: boundKeyThumbprint, takesPlace: takesPlace))
  }

  private func limit(_ isGuest: Bool, _ method: SignInMethod) -> Timestamp {
    now + lifetimes.family(isGuest: isGuest, method: method).absolute
  }

  // MARK: - The session

  /// The session of this subject, on the device with this key, by this authority. Every session is made here.
  ///
  /// - Parameter earlier: the session whose place it takes, which the device is known by where it says nothing itself.
  package func session(
    of subject: SubjectID, isGuest: Bool, deviceKeyThumbprint: String?, by authority: Authority,
    replacing earlier: Session? = nil
  ) -> Session {
    let lifetimes = lifetimes.family(isGuest: isGuest, method: authority.method)
    return Session(
      id: id,
      subject: subject,
      isGuest: isGuest,
      client: client,
      scope: authority.scope,
      method: authority.method,
      device: Session.Device(
        keyThumbprint: deviceKeyThumbprint ?? earlier?.device.keyThumbprint,
        label: label ?? earlier?.device.label,
        platform: platform ?? earlier?.device.platform
      ),
      boundKeyThumbprint: authority.keyThumbprint,
      refreshSeed: refreshSeed,
      beganAt: now,
      authenticatedAt: authority.provenAt,
      provenBy: authority.provenBy,
      family: RefreshFamily(
        generation: 1, rotatedAt: now, idleExpiry: min(now + lifetimes.idle, authority.expiry),
        absoluteExpiry: authority.expiry),
      confirmedAt: authority.confirmedAt
    )
  }
}
