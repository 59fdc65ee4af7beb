import LatchkeyModel
import Storage

/// A row of `qr_sessions`: its statements, and the way between it and a `QRSession`.
enum QRSessionRow {
  private static let columns = """
    id, poll_hash, reference_hash, user_code_hash, purpose, client_id, scope, challenge, \
    initiator_label, initiator_platform, initiator_app, initiator_address, initiator_key_thumbprint, initiator_sid, \
    device_key, issued_at, expires_at, version, state, sub, sid, ticket_hash, ticket_expires_at, needs_check_code, \
    account_mask, granted_scope, confirmed_at, consumed_at, needs_reauth, heard_beacon, confirm_proof, \
    confirmer_proven_at, \
    action_text, action_amount, action_currency, action_reference
    """

  static let insert = """
    INSERT INTO qr_sessions (\(columns))
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """

  static let exchange = """
    UPDATE qr_sessions SET expires_at = ?, version = ?, state = ?, sub = ?, sid = ?, ticket_hash = ?,
      ticket_expires_at = ?, needs_check_code = ?, account_mask = ?, granted_scope = ?, confirmed_at = ?,
      consumed_at = ?, needs_reauth = ?, heard_beacon = ?, confirm_proof = ?, confirmer_proven_at = ?
    WHERE id = ? AND version = ? AND state = ? AND expires_at > ?
    """

  static let byID = "SELECT \(columns) FROM qr_sessions WHERE id = ?"
  static let byReference = "SELECT \(columns) FROM qr_sessions WHERE reference_hash = ?"
  static let byUserCode = "SELECT \(columns) FROM qr_sessions WHERE user_code_hash = ?"
  static let byPollSecret = "SELECT \(columns) FROM qr_sessions WHERE poll_hash = ?"
  static let page = "SELECT \(columns) FROM qr_sessions WHERE id > ? AND expires_at > ? ORDER BY id LIMIT ?"

  /// The first condition is there for the index; a redeemed row is passed over until its own time.
  static let remove = """
    DELETE FROM qr_sessions WHERE id IN (
      SELECT id FROM qr_sessions
      WHERE expires_at < ? AND expires_at < CASE state WHEN ? THEN ? ELSE ? END
      LIMIT ?)
    """

  static func values(of session: QRSession) -> [SQLiteValue] {
    let request = session.request
    return [
      .blob(session.id.bytes),
      .blob(session.keys.pollSecret.bytes),
      .blob(session.keys.reference.bytes),
      .blob(session.keys.userCode.bytes),
      .integer(request.purpose.rawValue),
      .text(request.clientID.description),
      .text(request.scope.description),
      .blob(request.challenge.digest.bytes),
      .optional(request.initiator.label?.description),
      .optional(request.initiator.platform?.description),
      .optional(request.initiator.app?.description),
      .text(request.initiator.address),
      .optional(request.initiator.keyThumbprint),
      .optional(request.initiator.sessionID?.bytes),
      .optional(request.deviceKey),
      .integer(session.issued.millisecondsSinceEpoch),
    ] + changingValues(of: session) + [
      .optional(request.action?.text.description),
      .optional(request.action?.amount?.decimal),
      .optional(request.action?.amount?.currency),
      .optional(request.action?.reference),
    ]
  }

  /// From `expires_at` to `confirmer_proven_at`: what an exchange replaces.
  static func changingValues(of session: QRSession) -> [SQLiteValue] {
    let claim = session.claim
    let grant = session.grant
    return [
      .integer(session.expires.millisecondsSinceEpoch),
      .integer(session.version),
      .integer(session.phase.state.rawValue),
      .optional(claim?.subject.bytes),
      .optional(claim?.sessionID.bytes),
      .optional(claim?.ticket.bytes),
      .optional(claim?.ticketExpires.millisecondsSinceEpoch),
      claim.map { .boolean($0.requirements.checkCode) } ?? .null,
      .optional(claim?.mask?.description),
      .optional(grant?.scope.description),
      .optional(grant?.confirmed.millisecondsSinceEpoch),
      .optional(session.consumed?.millisecondsSinceEpoch),
      claim.map { .boolean($0.requirements.reauthentication) } ?? .null,
      claim.map { .boolean($0.heardBeacon) } ?? .null,
      .optional(grant?.proof?.bytes),
      .optional(grant?.proven?.millisecondsSinceEpoch),
    ]
  }

  /// Throws `corrupt` for a row that no release ever wrote.
  static func session(_ row: SQLiteRow) throws(StorageError) -> QRSession {
    guard let id = QRSessionID(bytes: row.blob(0)),
      let pollSecret = Digest256(row.blob(1)),
      let reference = Digest256(row.blob(2)),
      let userCode = Digest256(row.blob(3)),
      let request = request(row),
      let phase = phase(row)
    else { throw StorageError(.corrupt, operation: "qr_sessions", detail: "a row does not read as a session") }
    return QRSession(
      restoring: id,
      keys: QRSessionKeys(pollSecret: pollSecret, reference: reference, userCode: userCode),
      request: request,
      issued: Timestamp(millisecondsSinceEpoch: row.integer(15)),
      expires: Timestamp(millisecondsSinceEpoch: row.integer(16)),
      version: row.integer(17),
      phase: phase
    )
  }

  private static func request(_ row: SQLiteRow) -> QRSessionRequest? {
    guard let purpose = QRPurpose(rawValue: Int(row.integer(4))),
      let clientID = ClientID(row.text(5)),
      let scope = Scope(row.text(6)),
      let challenge = Digest256(row.blob(7))
    else { return nil }
    let initiator = QRInitiator(
      label: row.optionalText(8).flatMap(DisplayText.init),
      platform: row.optionalText(9).flatMap(DisplayText.init),
      app: row.optionalText(10).flatMap(DisplayText.init),
      address: row.text(11),
      keyThumbprint: row.optionalText(12),
      sessionID: row.optionalBlob(13).flatMap { SessionID(bytes: $0, in: row.cell) }
    )
    return QRSessionRequest(
      purpose: purpose,
      clientID: clientID,
      scope: scope,
      challenge: PKCEChallenge(digest: challenge),
      initiator: initiator,
      deviceKey: row.optionalBlob(14),
      action: action(row)
    )
  }

  private static func action(_ row: SQLiteRow) -> QRAction? {
    guard let text = row.optionalText(32) else { return nil }
    let amount = row.optionalText(33).flatMap { decimal in
      row.optionalText(34).flatMap { QRAmount(decimal: decimal, currency: $0) }
    }
    return QRAction(text: text, amount: amount, reference: row.optionalText(35) ?? "")
  }

  private static func phase(_ row: SQLiteRow) -> QRSession.Phase? {
    switch QRSessionState(rawValue: Int(row.integer(18))) {
    case .pending: .pending
    case .expired: .expired
    case .cancelled: .cancelled
    case .scanned: claim(row).map { .scanned($0) }
    case .denied: claim(row).map { .denied($0) }
    case .confirmed:
      if let claim = claim(row), let grant = grant(row) { .confirmed(claim, grant) } else { nil }
    case .consumed:
      if let claim = claim(row), let grant = grant(row), let consumed = row.optionalInteger(27) {
        .consumed(claim, grant, at: Timestamp(millisecondsSinceEpoch: consumed))
      } else {
        nil
      }
    case nil: nil
    }
  }

  private static func claim(_ row: SQLiteRow) -> QRSession.Claim? {
    guard let subject = SubjectID(bytes: row.blob(19), in: row.cell),
      let sessionID = SessionID(bytes: row.blob(20), in: row.cell),
      let ticket = Digest256(row.blob(21)),
      let ticketExpires = row.optionalInteger(22)
    else { return nil }
    return QRSession.Claim(
      subject: subject,
      sessionID: sessionID,
      ticket: ticket,
      ticketExpires: Timestamp(millisecondsSinceEpoch: ticketExpires),
      // NULL in a claim that version 1 wrote, which asked for neither.
      requirements: QRRequirements(
        checkCode: row.boolean(23),
        reauthentication: row.optionalInteger(28) == 1
      ),
      heardBeacon: row.optionalInteger(29) == 1,
      mask: row.optionalText(24).flatMap(DisplayText.init)
    )
  }

  private static func grant(_ row: SQLiteRow) -> QRSession.Grant? {
    guard let scope = row.optionalText(25).flatMap(Scope.init), let confirmed = row.optionalInteger(26) else {
      return nil
    }
    return QRSession.Grant(
      scope: scope,
      confirmed: Timestamp(millisecondsSinceEpoch: confirmed),
      // NULL in a row of before version 3: nobody knows, which is no recent proof.
      proven: row.optionalInteger(31).map { Timestamp(millisecondsSinceEpoch: $0) },
      proof: row.optionalBlob(30).flatMap(QRConfirmProof.init(bytes:))
    )
  }
}
