import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension QRSessionAPI {
  package func confirmSession(
    _ request: QRV1.ConfirmSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.ConfirmSessionResponse {
    let confirmer = try confirmer(context)
    try admission.decide(by: confirmer.subject, at: clock.now())
    return try await spendingNothingInOutages(confirmer) { () throws(RPCError) in
      try await confirm(request, by: confirmer, context)
    }
  }

  private func confirm(
    _ request: QRV1.ConfirmSessionRequest, by confirmer: QRConfirmer, _ context: ServerContext
  ) async throws(RPCError) -> QRV1.ConfirmSessionResponse {
    var scope: Scope?
    if !request.scopeSubset.isEmpty {
      guard let subset = Scope(request.scopeSubset) else {
        throw .invalid("scope_subset", "must be scope tokens separated by spaces")
      }
      scope = subset
    }
    var typed: CheckCode?
    if !request.checkCode.isEmpty {
      guard let code = CheckCode(typed: request.checkCode) else { throw .invalid("check_code", "is two digits") }
      typed = code
    }
    let (found, ticket) = try await find(ticket: request.confirmTicket)
    let expected = checkCode(of: found)
    let proof = try await proof(request, of: found, by: confirmer, context)
    if proof == nil, found.request.letsIn(granting: scope) {
      try QRAccess.ownersWord.check(try context.requireSubject(), settings.stepUp, at: clock.now())
    }
    let (granted, code) = (scope, typed)
    // The phone may have moved since it scanned: the place that counts is the one that it confirms from.
    let beacon: BeaconEvidence = found.claim?.heardBeacon == true ? .heard : .none
    let requirements = risk.assess(found.request, from: context.peer, beacon: beacon).requirements
    let (outcome, session) = try await decide(on: found) { session, now in
      session.confirm(
        by: confirmer,
        ticket: ticket,
        scope: granted,
        checkCode: (code, expected),
        proof: proof,
        requirements: requirements,
        policy: settings.confirm,
        at: now
      )
    }
    return try answer(outcome, session, confirmer, context)
  }

  private func answer(
    _ outcome: QRSession.ConfirmOutcome, _ session: QRSession, _ confirmer: QRConfirmer, _ context: ServerContext
  ) throws(RPCError) -> QRV1.ConfirmSessionResponse {
    switch outcome {
    case .confirmed:
      admission.decisionWasRight(by: confirmer.subject, at: clock.now())
      record(.confirmed, session, subject: confirmer.subject, address: context.peer.address)
      return QRV1.ConfirmSessionResponse()
    case .alreadyConfirmed:
      return QRV1.ConfirmSessionResponse()
    case .refused:
      throw .noSuchCode
    case .scopeTooWide:
      throw .invalid("scope_subset", "is wider than what was asked for")
    case .needsReauthentication:
      throw .reauthenticationRequired
    case .needsCheckCode:
      throw .invalid("check_code", "is needed: two digits from the screen that shows the code")
    case .wrongCheckCode:
      record(.wrongCheckCode, session, subject: confirmer.subject, address: context.peer.address)
      ended(session)
      throw .wrongCheckCode
    case .riskDenied:
      record(.riskDenied, session, subject: confirmer.subject, address: context.peer.address)
      ended(session)
      throw .riskDenied
    }
  }

  /// The device key's signature, if the phone sent one; throws unless it is by the key of the phone's own session and
  /// over this ticket and this action (S11). The key of a device that a code or a transfer let in says nothing of the
  /// owner, until they stepped up there: it would be a pass that its holder writes themselves (R46).
  private func proof(
    _ request: QRV1.ConfirmSessionRequest,
    of session: QRSession,
    by confirmer: QRConfirmer,
    _ context: ServerContext
  ) async throws(RPCError) -> QRConfirmProof? {
    guard let sent = request.reauthProof else { return nil }
    guard let jwk = sent.deviceKey else { throw .invalid("reauth_proof.device_key", "is missing") }
    let key = try publicKey(jwk, "reauth_proof.device_key")
    let ticket = Self.digest(Array(request.confirmTicket.utf8))
    guard let proof = QRConfirmProof(key: key.x + key.y, ticket: ticket, signature: sent.signature) else {
      throw .invalid("reauth_proof.signature", "is 64 bytes, r then s")
    }
    let action = session.request.action.map { Self.digest($0.message(client: session.request.clientID)) }
    // Only the phone that scanned makes us verify and ask; anybody else is refused for that.
    guard session.claim?.sessionID == confirmer.sessionID else { return proof }
    guard key.verify(signature: sent.signature, message: QRConfirmProof.message(ticket: ticket, action: action)),
      try await isOwnKey(key.thumbprint, of: confirmer, context)
    else {
      record(.wrongReauthProof, session, subject: confirmer.subject, address: context.peer.address)
      throw .wrongReauthProof
    }
    return proof
  }

  private func isOwnKey(
    _ thumbprint: String,
    of confirmer: QRConfirmer,
    _ context: ServerContext
  ) async throws(RPCError) -> Bool {
    for isFresh in [false, true] {
      let known = try await subjects.description(
        of: confirmer.subject,
        session: confirmer.sessionID,
        isFresh: isFresh,
        at: clock.now(),
        deadline: context.deadline
      )
      if known.provesByKey, known.deviceKeyThumbprint == thumbprint { return true }
    }
    return false
  }

  /// The session of a confirm ticket, and the ticket's hash. A text that is no ticket is one that nobody holds.
  func find(ticket text: String) async throws(RPCError) -> (session: QRSession, ticket: Digest256) {
    guard !text.isEmpty else { throw .invalid("confirm_ticket", "is what a scan answered") }
    guard let ticket = ConfirmTicket(text: text) else { throw .noSuchCode }
    try cell.requireSame(ticket.cell)
    let found = try await stored { () throws(StorageError) in try await self.store.session(ticket.session) }
    guard let found else { throw .noSuchCode }
    return (found, Self.digest(ticket.secret))
  }
}

extension QRSessionRequest {
  /// Whether who is granted it can come back by themselves or let others in: that takes a recent proof of the owner.
  func letsIn(granting subset: Scope?) -> Bool {
    switch purpose {
    case .bindDevice, .transferGuest: true
    case .confirmAction: false
    case .login: (subset ?? scope).contains("account")
    }
  }
}
