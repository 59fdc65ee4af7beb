/// One QR sign-in, from the code on the screen to the tokens in hand.
///
/// ```
///           scan                confirm               redeem
/// PENDING ────────▶ SCANNED ──────────────▶ CONFIRMED ────────▶ CONSUMED
///    │               │  │ ▲ └─ deny, wrong ──▶ DENIED   │
///    │               │  └─┘    check code                │
///    │               │  scan by the same account         │
///    ├─── cancel ────┴──────────── cancel ───────────────┤──▶ CANCELLED
///    └─── time ──────┴──────────── time ─────────────────┴──▶ EXPIRED
/// ```
///
/// A value: each event is a method that changes the copy it is called on and says what came of it. Nothing counts
/// before storage has accepted the copy in exchange for the version it was made from. Time needs no event to pass: a
/// session whose time is over answers every event as expired.
package struct QRSession: Sendable, Equatable {
  package let id: QRSessionID
  package let keys: QRSessionKeys
  package let request: QRSessionRequest
  package let issued: Timestamp
  package private(set) var expires: Timestamp
  /// Counts the changes, from 1. Storage exchanges a session only for the version before it.
  package private(set) var version: Int64
  package private(set) var phase: Phase

  /// Holds what is valid in each state, and only that.
  package enum Phase: Sendable, Equatable {
    case pending
    case scanned(Claim)
    case confirmed(Claim, Grant)
    case denied(Claim)
    case expired
    case cancelled
    case consumed(Claim, Grant, at: Timestamp)

    /// The state that was last stored, whatever time it is.
    package var state: QRSessionState {
      switch self {
      case .pending: .pending
      case .scanned: .scanned
      case .confirmed: .confirmed
      case .denied: .denied
      case .expired: .expired
      case .cancelled: .cancelled
      case .consumed: .consumed
      }
    }
  }

  /// The account and session that scanned, and the digest of the ticket they decide with.
  package struct Claim: Sendable, Equatable {
    package let subject: SubjectID
    package let sessionID: SessionID
    package let ticket: Digest256
    package let ticketExpires: Timestamp
    /// What this scanner has to do besides agreeing.
    package let requirements: QRRequirements
    /// Whether this scanner heard the screen's beacon.
    package let heardBeacon: Bool
    /// The account as the initiating screen may show it, such as `a•••@example.org` (S23); nil when nobody knows.
    package let mask: DisplayText?

    package init(
      subject: SubjectID,
      sessionID: SessionID,
      ticket: Digest256,
      ticketExpires: Timestamp,
      requirements: QRRequirements = QRRequirements(),
      heardBeacon: Bool = false,
      mask: DisplayText? = nil
    ) {
      self.subject = subject
      self.sessionID = sessionID
      self.ticket = ticket
      self.ticketExpires = ticketExpires
      self.requirements = requirements
      self.heardBeacon = heardBeacon
      self.mask = mask
    }
  }

  /// What the person agreed to.
  package struct Grant: Sendable, Equatable {
    package let scope: Scope
    package let confirmed: Timestamp
    /// When the person had last proved who they are, by the token that they confirmed with.
    package let proven: Timestamp?
    /// What the confirming device signed, if it did.
    package let proof: QRConfirmProof?

    package init(scope: Scope, confirmed: Timestamp, proven: Timestamp?, proof: QRConfirmProof? = nil) {
      self.scope = scope
      self.confirmed = confirmed
      self.proven = proven
      self.proof = proof
    }
  }

  /// A new session. `lifetime` is held to `QRLimits.maximumLifetime`.
  package init(
    id: QRSessionID,
    keys: QRSessionKeys,
    request: QRSessionRequest,
    issued: Timestamp,
    lifetime: Duration
  ) {
    self.id = id
    self.keys = keys
    self.request = request
    self.issued = issued
    expires = issued + min(lifetime, QRLimits.maximumLifetime)
    version = 1
    phase = .pending
  }

  /// A session as storage remembers it.
  package init(
    restoring id: QRSessionID,
    keys: QRSessionKeys,
    request: QRSessionRequest,
    issued: Timestamp,
    expires: Timestamp,
    version: Int64,
    phase: Phase
  ) {
    self.id = id
    self.keys = keys
    self.request = request
    self.issued = issued
    self.expires = expires
    self.version = version
    self.phase = phase
  }

  /// The state as of `now`.
  package func state(at now: Timestamp) -> QRSessionState {
    let stored = phase.state
    switch stored {
    case .pending, .scanned: return now >= expires || now < issued - QRLimits.clockStep ? .expired : stored
    // What a person agreed to is not lost to a clock that is set back.
    case .confirmed: return now >= expires ? .expired : stored
    case .denied, .expired, .cancelled, .consumed: return stored
    }
  }

  // MARK: - The confirming device

  package enum ScanOutcome: Sendable, Equatable {
    /// This account has the code now, with a new ticket; an earlier ticket of the same account is void.
    case claimed
    /// Another account has it: an anomaly (S6). The scanner is answered as if there were no such code.
    case claimedByAnother
    /// Decided, over or out of time. The scanner is answered as if there were no such code (S24).
    case unavailable
    /// The device that shows the code may not confirm it (S21).
    case sameDevice
    /// A guest may not sign a device in (S11).
    case guestRefused
    /// From there nobody claims it (S10).
    case riskDenied
  }

  /// The code was read by `confirmer`. Grants nothing (S7). What an earlier scan asked for stays asked for.
  package mutating func scan(
    by confirmer: QRConfirmer,
    ticket: Digest256,
    requirements: QRRequirements = QRRequirements(),
    heardBeacon: Bool = false,
    mask: DisplayText? = nil,
    at now: Timestamp
  ) -> ScanOutcome {
    var requirements = requirements
    switch (state(at: now), phase) {
    case (.pending, _):
      break
    case (.scanned, .scanned(let claim)), (.confirmed, .confirmed(let claim, _)):
      guard claim.subject == confirmer.subject else { return .claimedByAnother }
      // The same person scanning again may go back to the confirm screen, but a decision stands.
      guard case .scanned = phase else { return .unavailable }
      requirements = requirements.joined(with: claim.requirements)
    default:
      return .unavailable
    }
    guard !(confirmer.isGuest && !request.purpose.allowsGuest) else { return .guestRefused }
    guard !isInitiator(confirmer) else { return .sameDevice }
    guard !requirements.isDenied else { return .riskDenied }
    change(
      to: .scanned(
        Claim(
          subject: confirmer.subject,
          sessionID: confirmer.sessionID,
          ticket: ticket,
          ticketExpires: now + QRLimits.ticketLifetime,
          requirements: requirements,
          heardBeacon: heardBeacon,
          mask: mask
        )
      )
    )
    return .claimed
  }

  package enum ConfirmOutcome: Sendable, Equatable {
    case confirmed
    /// The same ticket confirmed before: the answer was lost, or the person tapped twice.
    case alreadyConfirmed
    /// Not this session's ticket, not this account or session, or too late: all the same to the caller (S24).
    case refused
    /// The confirmed scope would be wider than what the initiating device asked for.
    case scopeTooWide
    /// The person has to prove who they are again first (S11).
    case needsReauthentication
    /// The screen's two digits are needed; nothing is lost by asking (S9).
    case needsCheckCode
    /// The one try was wrong: the session is denied for good (S9).
    case wrongCheckCode
    /// The person went where nobody confirms this code: the session is denied for good (S10).
    case riskDenied
  }

  /// The person agreed, to `scope` or to all that was asked for. `requirements` are those of the place that they
  /// confirm from; what the scan asked for holds besides. `proof` has been verified.
  package mutating func confirm(
    by confirmer: QRConfirmer,
    ticket: Digest256,
    scope: Scope?,
    checkCode: (typed: CheckCode?, expected: CheckCode),
    proof: QRConfirmProof? = nil,
    requirements: QRRequirements = QRRequirements(),
    policy: QRConfirmPolicy,
    at now: Timestamp
  ) -> ConfirmOutcome {
    switch (state(at: now), phase) {
    case (.scanned, .scanned(let claim)):
      guard isHeld(claim, by: confirmer, ticket: ticket, at: now) else { return .refused }
      guard !requirements.isDenied else {
        change(to: .denied(claim))
        return .riskDenied
      }
      let isStepUp = claim.requirements.reauthentication || requirements.reauthentication
      let isAuthenticated =
        proof != nil
        || !policy.needsReauthentication(confirmer, for: request.purpose, isStepUp: isStepUp, at: now)
      guard isAuthenticated else { return .needsReauthentication }
      let granted = scope ?? request.scope
      guard granted.isSubset(of: request.scope) else { return .scopeTooWide }
      if claim.requirements.checkCode || requirements.checkCode {
        guard let typed = checkCode.typed else { return .needsCheckCode }
        guard typed == checkCode.expected else {
          change(to: .denied(claim))
          return .wrongCheckCode
        }
      }
      change(
        to: .confirmed(claim, Grant(scope: granted, confirmed: now, proven: confirmer.authenticated, proof: proof)))
      expires = max(expires, now + QRLimits.redeemWindow)
      return .confirmed
    case (.confirmed, .confirmed(let claim, _)), (.consumed, .consumed(let claim, _, _)):
      return isHeld(claim, by: confirmer, ticket: ticket, at: now) ? .alreadyConfirmed : .refused
    default:
      return .refused
    }
  }

  package enum DenyOutcome: Sendable, Equatable {
    case denied
    case alreadyDenied
    case refused
  }

  /// The person refused. Final (R33).
  package mutating func deny(by confirmer: QRConfirmer, ticket: Digest256, at now: Timestamp) -> DenyOutcome {
    switch (state(at: now), phase) {
    case (.scanned, .scanned(let claim)):
      guard isHeld(claim, by: confirmer, ticket: ticket, at: now) else { return .refused }
      change(to: .denied(claim))
      return .denied
    case (.denied, .denied(let claim)):
      return isHeld(claim, by: confirmer, ticket: ticket, at: now) ? .alreadyDenied : .refused
    default:
      return .refused
    }
  }

  // MARK: - The initiating device

  package enum CancelOutcome: Sendable, Equatable {
    case cancelled
    /// It had ended before, in whatever way.
    case alreadyOver
  }

  /// The initiating device gave up, or the service did because two accounts submitted the code (S6).
  package mutating func cancel(at now: Timestamp) -> CancelOutcome {
    guard !state(at: now).isFinal else { return .alreadyOver }
    change(to: .cancelled)
    return .cancelled
  }

  package enum RedeemOutcome: Sendable, Equatable {
    /// Hand the grant over, once storage has accepted this copy.
    case redeemed
    /// The poller that redeemed asks again within 30 s: its answer was lost.
    case repeated
    /// The right verifier, too late after it was used: what was issued has to be revoked (S19).
    case reused
    /// Not the device that asked for the code (S3).
    case wrongVerifier
    /// There is nothing to redeem: the state says why.
    case notRedeemable
  }

  /// The initiating device proves by `verifier`, the digest of its PKCE verifier, that it is the one that asked.
  package mutating func redeem(verifier: Digest256, at now: Timestamp) -> RedeemOutcome {
    switch (state(at: now), phase) {
    case (.confirmed, .confirmed(let claim, let grant)):
      guard request.challenge.isMet(by: verifier) else { return .wrongVerifier }
      change(to: .consumed(claim, grant, at: now))
      return .redeemed
    case (.consumed, .consumed(_, _, let consumed)):
      guard request.challenge.isMet(by: verifier) else { return .wrongVerifier }
      return now - consumed <= QRLimits.repeatWindow ? .repeated : .reused
    default:
      return .notRedeemable
    }
  }

  /// Writes down that time is over. False while it is not, or when the session ended otherwise.
  package mutating func expire(at now: Timestamp) -> Bool {
    guard state(at: now) == .expired, phase != .expired else { return false }
    change(to: .expired)
    return true
  }

  // MARK: -

  /// The claim that stands, if the session was ever claimed.
  package var claim: Claim? {
    switch phase {
    case .pending, .expired, .cancelled: nil
    case .scanned(let claim), .confirmed(let claim, _), .denied(let claim), .consumed(let claim, _, _): claim
    }
  }

  /// What was agreed to, if anything was.
  package var grant: Grant? {
    switch phase {
    case .confirmed(_, let grant), .consumed(_, let grant, _): grant
    case .pending, .scanned, .denied, .expired, .cancelled: nil
    }
  }

  /// When the grant was handed over, if it was.
  package var consumed: Timestamp? {
    if case .consumed(_, _, let consumed) = phase { consumed } else { nil }
  }

  /// The ticket is this claim's, in time, and in the hands that it was given to (S7, R32).
  private func isHeld(_ claim: Claim, by confirmer: QRConfirmer, ticket: Digest256, at now: Timestamp) -> Bool {
    claim.ticket == ticket && now < claim.ticketExpires
      && claim.subject == confirmer.subject && claim.sessionID == confirmer.sessionID
  }

  private func isInitiator(_ confirmer: QRConfirmer) -> Bool {
    guard request.purpose.refusesSameDevice else { return false }
    let sameSession = request.initiator.sessionID == confirmer.sessionID
    let keys = [confirmer.keyThumbprint, confirmer.deviceKeyThumbprint].compactMap { $0 }
    return sameSession || request.initiator.keyThumbprint.map(keys.contains) == true
  }

  private mutating func change(to phase: Phase) {
    self.phase = phase
    version += 1
  }
}
