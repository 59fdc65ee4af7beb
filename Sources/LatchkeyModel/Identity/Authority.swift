/// What a session may do and on whose word: the value that every way to make a session hands on (R43).
///
///     a person proves something ──▶ proven ──▶ a session
///                                               │ a code, a transfer, a ticket, a key that a code bound
///                                               ▼
///                                            derived ──▶ a session that may do no more
///
/// Authority begins with a proof alone. From there it can only narrow: nobody gets more than the owner agreed to.
package struct Authority: Sendable, Equatable {
  package let scope: Scope
  /// How it began: by which proof, or how its owner agreed.
  package let method: SignInMethod
  /// What a person last proved who they are by; nil where nobody knows.
  package let provenBy: SignInMethod?
  /// When a person last proved who they are (`auth_time`): never when a code was collected.
  package let provenAt: Timestamp
  /// Since when its owner stands by it; nil when nobody needs to, or nobody did.
  package let confirmedAt: Timestamp?
  /// The key that it is nothing without.
  package let keyThumbprint: String?
  /// When it is over for certain.
  package let expiry: Timestamp

  package init(
    scope: Scope,
    method: SignInMethod,
    provenBy: SignInMethod?,
    provenAt: Timestamp,
    confirmedAt: Timestamp? = nil,
    keyThumbprint: String? = nil,
    expiry: Timestamp
  ) {
    self.scope = scope
    self.method = method
    self.provenBy = provenBy
    self.provenAt = provenAt
    self.confirmedAt = confirmedAt
    self.keyThumbprint = keyThumbprint
    self.expiry = expiry
  }

  /// Whose hands it is handed to.
  package enum Receiver: Sendable, Equatable {
    /// The device that has it already: what binds it stays, and so does its owner's word.
    case sameDevice(provenKey: String?)
    /// Another device, by a code or a transfer. Its owner has to stand by it anew, unless the old device gave it its
    /// own place.
    case otherDevice(provenKey: String?, takesPlace: Bool)
  }

  /// The one way in which authority is handed on. It narrows, whatever is asked for.
  ///
  /// - Parameters:
  ///   - scope: what is asked for; nil for all there is.
  ///   - method: how it is handed on.
  ///   - agreedAt: when the owner agreed; a proof of later has nothing to do with it.
  package func derived(
    scope asked: Scope? = nil,
    method: SignInMethod,
    agreedAt: Timestamp,
    until limit: Timestamp,
    for receiver: Receiver
  ) -> Authority {
    let (key, confirmed): (String?, Timestamp?) =
      switch receiver {
      case .sameDevice(let proven): (keyThumbprint ?? proven, confirmedAt)
      case .otherDevice(let proven, let takesPlace):
        (proven, takesPlace && isConfirmed ? agreedAt : nil)
      }
    return Authority(
      scope: asked?.intersection(scope) ?? scope,
      method: method,
      provenBy: provenBy,
      provenAt: min(provenAt, agreedAt),
      confirmedAt: confirmed,
      keyThumbprint: key,
      expiry: min(expiry, limit)
    )
  }

  /// What the holder of an earlier token of the session hands on: what was proved since was proved by somebody else.
  package func shown(provenAt: Timestamp) -> Authority {
    let isLast = provenAt.secondsSinceEpoch >= self.provenAt.secondsSinceEpoch
    return Authority(
      scope: scope, method: method, provenBy: isLast ? provenBy : nil, provenAt: min(self.provenAt, provenAt),
      confirmedAt: confirmedAt, keyThumbprint: keyThumbprint, expiry: expiry)
  }

  /// What a code or a transfer began is confirmed by its owner's word alone, never by time.
  package var isConfirmed: Bool {
    (method != .qr && method != .transfer) || confirmedAt != nil
  }

  /// Whether it may let others in: a confirmed one with all that an account may do.
  package var isOwners: Bool { isConfirmed && scope.contains("account") }
}

extension Session {
  package var authority: Authority {
    Authority(
      scope: scope, method: method, provenBy: provenBy, provenAt: authenticatedAt, confirmedAt: confirmedAt,
      keyThumbprint: boundKeyThumbprint, expiry: family.absoluteExpiry)
  }
}
