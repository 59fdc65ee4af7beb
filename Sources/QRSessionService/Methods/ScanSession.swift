import Callers
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension QRSessionAPI {
  package func scanSession(
    _ request: QRV1.ScanSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.ScanSessionResponse {
    var confirmer = try confirmer(context)
    guard let code = request.code else { throw .invalid("code", "is a qr_payload or a user_code") }
    let heard = try Self.heardBeacons(request.heardBeacons)
    // Before a try is taken and anything is looked at: it is the code's own text that says so.
    if let other = cell(of: code), other != cell { throw .otherCell(other) }
    let attempt = try await admission.scan(
      by: confirmer.subject, from: context.peer, isTyped: Self.isTyped(code), at: clock.now())
    // Drawn whether it will be needed or not: no outcome does less work than another (S24).
    let secret = random.bytes(ConfirmTicket.secretByteCount)
    let ticketHash = Self.digest(secret)
    let (description, looked) = try await look(code, attempt, confirmer, context)
    confirmer.deviceKeyThumbprint = description.deviceKeyThumbprint
    // A code that is nobody's is judged like one that is over (S30).
    var found = looked ?? nobodys

    let beacon = Self.evidence(heard, of: beacon(of: found))
    var risk = risk.assess(found.request, from: context.peer, beacon: beacon)
    if !settle(&risk, attempt.typed, found, context.peer) { found = nobodys }
    let (scanner, mask) = (confirmer, description.mask)
    let requirements = risk.requirements
    let (outcome, session) = try await claim(found, attempt) { session, now in
      session.scan(
        by: scanner,
        ticket: ticketHash,
        requirements: requirements,
        heardBeacon: beacon == .heard,
        mask: mask,
        at: now
      )
    }
    try await check(outcome, session, attempt, confirmer, context)
    record(.scanned, session, subject: confirmer.subject, address: context.peer.address)
    // What an earlier scan asked for as well.
    risk.requirements = session.claim?.requirements ?? requirements
    var answer = response(session, ConfirmTicket(session: session.id, secret: secret, in: cell), risk, confirmer)
    answer.needsStepUp = answer.needsReauth && !description.provesByKey
    return answer
  }

  /// Which cell a code names; nil for a text that is no code.
  private func cell(of code: QRV1.ScanSessionRequest.Code) -> Cell? {
    switch code {
    case .qrPayload(let text): (try? QRPayload(reading: text, base: settings.verificationBase))?.reference.cell
    case .userCode(let text): UserCode(typed: text)?.cell
    }
  }

  private static func isTyped(_ code: QRV1.ScanSessionRequest.Code) -> Bool {
    if case .userCode = code { true } else { false }
  }

  /// Who scans, and what the code is of; the try is given back when the one or the other cannot be told (S26).
  private func look(
    _ code: QRV1.ScanSessionRequest.Code,
    _ attempt: Admission.Try,
    _ confirmer: QRConfirmer,
    _ context: ServerContext
  ) async throws(RPCError) -> (SubjectDescription, QRSession?) {
    let description: SubjectDescription
    do throws(RPCError) {
      // Asked for before anything is known of the code, so that the time it takes says nothing either. Without the name
      // that the screen has to show there is no claim (S23).
      description = try await subjects.description(
        of: confirmer.subject,
        session: confirmer.sessionID,
        at: clock.now(),
        deadline: context.deadline
      )
    } catch {
      await admission.wasNotWrong(attempt, at: clock.now())
      throw error
    }
    do throws(RPCError) {
      return (description, try await find(code))
    } catch {
      // Whoever hangs up during the look-up may have been told by how long it took.
      if error.code != .cancelled { await admission.wasNotWrong(attempt, at: clock.now()) }
      throw error
    }
  }

  /// Decides on a code that was looked up. Only one that becomes the scanner's is stored: where that fails the code
  /// was right, and the try is given back (S26).
  private func claim(
    _ found: QRSession,
    _ attempt: Admission.Try,
    _ decision: (inout QRSession, Timestamp) -> QRSession.ScanOutcome
  ) async throws(RPCError) -> (outcome: QRSession.ScanOutcome, session: QRSession) {
    do throws(RPCError) {
      return try await decide(on: found, decision)
    } catch {
      await admission.wasNotWrong(attempt, at: clock.now())
      throw error
    }
  }

  /// Adds what a typed code takes. False when it is not one for here: its screen is elsewhere while many wrong codes are
  /// typed.
  private func settle(
    _ risk: inout AssessedRisk, _ terms: TypedCodes.Terms?, _ found: QRSession, _ peer: Peer
  ) -> Bool {
    guard let terms, terms.takesDigits else { return true }
    // An installation that shows no digits has the network alone to go by.
    let hasDigits = self.risk.mayNeedCheckCode(found.request)
    if hasDigits { risk.requirements.checkCode = true }
    guard terms.takesOwnNetwork || !hasDigits else { return true }
    return risk.distance == .nearby || NetworkAddress.isSameSource(found.request.initiator.address, peer.address)
  }

  /// What every scanner is told whose code is not there to confirm, in whatever way. A guest is told the same about a
  /// code that it may not confirm.
  private func nothing(for confirmer: QRConfirmer, _ attempt: Admission.Try) -> RPCError {
    if confirmer.isGuest { return .loginRequired }
    return attempt.typed?.takesOwnNetwork == true ? .typedElsewhere : .noSuchCode
  }

  /// Throws unless the code is the scanner's now.
  private func check(
    _ outcome: QRSession.ScanOutcome,
    _ session: QRSession,
    _ attempt: Admission.Try,
    _ confirmer: QRConfirmer,
    _ context: ServerContext
  ) async throws(RPCError) {
    switch outcome {
    case .claimed:
      await admission.wasNotWrong(attempt, at: clock.now())
    case .unavailable:
      throw nothing(for: confirmer, attempt)
    case .claimedByAnother:
      followUps.handle(
        FollowUps.PassedAround(session: session, subject: confirmer.subject, address: context.peer.address)
      )
      throw nothing(for: confirmer, attempt)
    case .guestRefused:
      throw .loginRequired
    case .sameDevice:
      record(.sameDeviceRefused, session, subject: confirmer.subject, address: context.peer.address)
      throw .sameDevice
    case .riskDenied:
      record(.riskDenied, session, subject: confirmer.subject, address: context.peer.address)
      throw .riskDenied
    }
  }

  private func response(
    _ session: QRSession, _ ticket: ConfirmTicket, _ risk: AssessedRisk, _ confirmer: QRConfirmer
  ) -> QRV1.ScanSessionResponse {
    let now = clock.now()
    let initiator = session.request.initiator
    return QRV1.ScanSessionResponse(
      confirmTicket: ticket.text,
      initiator: QRV1.Initiator(
        label: initiator.label?.description ?? "",
        platform: initiator.platform?.description ?? "",
        app: initiator.app?.description ?? ""
      ),
      risk: QRV1.Risk(risk),
      expiresIn: min(QRLimits.ticketLifetime, max(.zero, session.expires - now)).secondsRoundedUp,
      needsCheckCode: risk.requirements.checkCode,
      needsReauth: settings.confirm.needsReauthentication(
        confirmer,
        for: session.request.purpose,
        isStepUp: risk.requirements.reauthentication,
        at: now
      ) || needsOwnersWord(confirmer, for: session.request, at: now),
      purpose: QRV1.Purpose(rawValue: Int32(session.request.purpose.rawValue)),
      clientID: session.request.clientID.description,
      scope: session.request.scope.description,
      issuedAt: GoogleProtobuf.Timestamp(millisecondsSinceEpoch: session.issued.millisecondsSinceEpoch),
      action: session.request.action.map { QRV1.Action($0) }
    )
  }

  /// Whether a confirmation of all that is asked for would be told STEP_UP_REQUIRED: the person should know before they
  /// agree.
  private func needsOwnersWord(_ confirmer: QRConfirmer, for request: QRSessionRequest, at now: Timestamp) -> Bool {
    request.letsIn(granting: nil) && !settings.stepUp.isRecent(confirmer.authenticated, at: now)
  }

  /// The session that was scanned or typed. Nil for every code that is nobody's, in whatever way; a text that is no code
  /// is looked up as well, by a hash that no code has, so that it costs the same (S30).
  private func find(_ code: QRV1.ScanSessionRequest.Code) async throws(RPCError) -> QRSession? {
    switch code {
    case .qrPayload(let text):
      let payload = try? QRPayload(reading: text, base: settings.verificationBase)
      let reference = Self.digest(payload?.reference.bytes ?? Array("no code".utf8))
      return try await stored { () throws(StorageError) in try await self.store.session(reference: reference) }
    case .userCode(let text):
      let userCode = Self.digest(UserCode(typed: text)?.letters ?? Array("no code".utf8))
      return try await stored { () throws(StorageError) in try await self.store.session(userCode: userCode) }
    }
  }

  private static func heardBeacons(_ texts: [String]) throws(RPCError) -> [Beacon] {
    guard texts.count <= Limits.heardBeacons else {
      throw .invalid("heard_beacons", "at most \(Limits.heardBeacons)")
    }
    // What other radios send is none of ours and none of the phone's fault.
    return texts.compactMap { Beacon(text: $0) }
  }

  private static func evidence(_ heard: [Beacon], of expected: Beacon) -> BeaconEvidence {
    if heard.contains(expected) { return .heard }
    return heard.isEmpty ? .none : .wrong
  }

  /// Who scans or decides. Of an account's sessions only those that may do all that the account may: a screen that was
  /// given less would otherwise give another one more (S16).
  func confirmer(_ context: ServerContext) throws(RPCError) -> QRConfirmer {
    let caller = try context.requireSubject()
    guard caller.isGuest || caller.hasScope("account") else { throw .insufficientScope }
    guard let subject = SubjectID(caller.subject), let sessionID = SessionID(caller.sessionID) else {
      throw RPCError(.unauthenticated, "the token names no subject of ours", reason: "TOKEN_INVALID")
    }
    return QRConfirmer(
      subject: subject,
      sessionID: sessionID,
      isGuest: caller.isGuest,
      authenticated: caller.authenticatedAt,
      keyThumbprint: caller.keyThumbprint
    )
  }
}

extension QRV1.Risk {
  init(_ risk: AssessedRisk) {
    self.init(
      network: risk.network,
      signals: risk.signals.map(\.rawValue)
    )
    switch risk.distance {
    case .unknown: distance = .unknown
    case .sameNetwork: distance = .sameNetwork
    case .nearby: distance = .nearby
    case .near(let kilometres):
      distance = .near
      distanceKm = Int32(clamping: kilometres)
    case .far(let kilometres):
      distance = .far
      distanceKm = Int32(clamping: kilometres)
    }
    switch risk.verdict {
    case .allow: verdict = .allow
    case .warn: verdict = .warn
    // What is denied is not answered at all.
    case .stepUp, .deny: verdict = .stepUp
    }
  }
}

extension QRV1.Action {
  init(_ action: QRAction) {
    self.init(
      text: action.text.description,
      amount: action.amount?.decimal ?? "",
      currency: action.amount?.currency ?? "",
      reference: action.reference
    )
  }
}
