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
