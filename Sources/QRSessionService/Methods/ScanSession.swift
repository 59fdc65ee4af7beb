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
    let confirmer = try confirmer(context)
    var isTyped = false
    if case .userCode = request.code { isTyped = true }
    try admission.scan(by: confirmer.subject, isTyped: isTyped, at: clock.now())
    // Drawn whether it will be needed or not: no outcome does less work than another (S24).
    let secret = random.bytes(ConfirmTicket.secretByteCount)
    let ticketHash = Self.digest(secret)
    // Asked for before anything is known of the code, so that the time it takes says nothing either. Without the name
    // that the screen has to show there is no claim (S23).
    let mask = confirmer.isGuest ? nil : try await grants.mask(of: confirmer.subject, deadline: context.deadline)
    guard let found = try await find(request.code) else {
      // A guest is told the same about a code that it may not confirm.
      throw confirmer.isGuest ? .loginRequired : .noSuchCode
    }

    let risk = Self.risk(of: found, seenFrom: context.peer)
    let needsCheckCode =
      switch settings.checkCode {
      case .never: false
      case .onRisk: risk.distance != .sameNetwork
      case .always: true
      }
    let (outcome, session) = try await decide(on: found) { session, now in
      session.scan(by: confirmer, ticket: ticketHash, needsCheckCode: needsCheckCode, mask: mask, at: now)
    }
    switch outcome {
    case .claimed:
      admission.scanWasRight(by: confirmer.subject, isTyped: isTyped, at: clock.now())
    case .unavailable:
      throw confirmer.isGuest ? .loginRequired : .noSuchCode
    case .claimedByAnother:
      followUps.handle(
        FollowUps.PassedAround(session: session, subject: confirmer.subject, address: context.peer.address)
      )
      throw confirmer.isGuest ? .loginRequired : .noSuchCode
    case .guestRefused:
      throw .loginRequired
    case .sameDevice:
      record(.sameDeviceRefused, session, subject: confirmer.subject, address: context.peer.address)
      throw .sameDevice
    }
    record(.scanned, session, subject: confirmer.subject, address: context.peer.address)

    let now = clock.now()
    let initiator = session.request.initiator
    return QRV1.ScanSessionResponse(
      confirmTicket: ConfirmTicket(session: session.id, secret: secret).text,
      initiator: QRV1.Initiator(
        label: initiator.label?.description ?? "",
        platform: initiator.platform?.description ?? "",
        app: initiator.app?.description ?? ""
      ),
      risk: risk,
      expiresIn: min(QRLimits.ticketLifetime, max(.zero, session.expires - now)).secondsRoundedUp,
      needsCheckCode: needsCheckCode,
      needsReauth: settings.confirm.needsReauthentication(confirmer, at: now),
      purpose: QRV1.Purpose(rawValue: Int32(session.request.purpose.rawValue)),
      clientID: session.request.clientID.description,
      scope: session.request.scope.description,
      issuedAt: GoogleProtobuf.Timestamp(millisecondsSinceEpoch: session.issued.millisecondsSinceEpoch)
    )
  }

  /// The session that was scanned or typed. Nil for every code that is nobody's, in whatever way.
  private func find(_ code: QRV1.ScanSessionRequest.Code?) async throws(RPCError) -> QRSession? {
    switch code {
    case nil:
      throw .invalid("code", "is a qr_payload or a user_code")
    case .qrPayload(let text):
      guard let payload = try? QRPayload(reading: text, base: settings.verificationBase) else { return nil }
      let reference = Self.digest(payload.reference.bytes)
      return try await stored { () throws(StorageError) in try await self.store.session(reference: reference) }
    case .userCode(let text):
      guard let typed = UserCode(typed: text) else { return nil }
      let userCode = Self.digest(typed.letters)
      return try await stored { () throws(StorageError) in try await self.store.session(userCode: userCode) }
    }
  }

  /// How near the two devices seem to be (S10).
  private static func risk(of session: QRSession, seenFrom peer: Peer) -> QRV1.Risk {
    let initiator = NetworkAddress(session.request.initiator.address)
    let scanner = NetworkAddress(peer.address)
    var risk = QRV1.Risk(network: initiator?.coarse ?? "", distance: .unknown)
    if let initiator, let scanner {
      if initiator.isSameNetwork(as: scanner) {
        risk.distance = .sameNetwork
      } else {
        risk.signals = ["different_network"]
      }
    }
    return risk
  }

  /// Who scans or decides.
  func confirmer(_ context: ServerContext) throws(RPCError) -> QRConfirmer {
    let caller = try context.requireSubject()
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
