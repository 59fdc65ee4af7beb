import LatchkeyModel
import Storage

/// A row of `qr_sessions`: its statements, and the way between it and a `QRSession`.
enum PostgreSQLQRSessionRow {
  private static let columns = """
    id, poll_hash, reference_hash, user_code_hash, purpose, client_id, scope, challenge, \
    initiator_label, initiator_platform, initiator_app, initiator_address, initiator_key_thumbprint, initiator_sid, \
    device_key, issued_at, expires_at, version, state, sub, sid, ticket_hash, ticket_expires_at, needs_check_code, \
    account_mask, granted_scope, confirmed_at, consumed_at, needs_reauth, heard_beacon, confirm_proof, \
    confirmer_proven_at, \
    action_text, action_amount, action_currency, action_reference
    """

  static let insert = """
    INSERT INTO qr_sessions (\(columns), expires_hour)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
      $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $17::bigint / 3600000)
    """

  /// What an exchange replaces, in the order of `changingValues`.
  private static let changing: KeyValuePairs<String, PostgreSQLColumn> = [
    "expires_at": .integer, "version": .integer, "state": .integer, "sub": .id, "sid": .id, "ticket_hash": .bytes,
    "ticket_expires_at": .integer, "needs_check_code": .flag, "account_mask": .text, "granted_scope": .text,
    "confirmed_at": .integer, "consumed_at": .integer, "needs_reauth": .flag, "heard_beacon": .flag,
    "confirm_proof": .bytes, "confirmer_proven_at": .integer,
  ]
  /// By which the row is found that is replaced.
  private static let replaced: KeyValuePairs<String, PostgreSQLColumn> = [
    "id": .id, "old_version": .integer, "old_state": .integer, "expiring_after": .integer,
  ]

  /// Several at once wait for one another; each that comes later finds another version. Answers the poll secret's hash of each
  /// row that was exchanged.
  static let exchange: PostgreSQLRowStatement = {
    let columns = Array(changing) + Array(replaced)
    /// - Parameter value: of a column.
    func statement(_ source: String, _ value: (String) -> String) -> String {
      """
      WITH exchanged AS (UPDATE qr_sessions AS held
        SET \(changing.map { "\($0.key) = \(value($0.key))" }.joined(separator: ", ")),
          expires_hour = \(value("expires_at"))::bigint / 3600000
        \(source)
        WHERE held.id = \(value("id")) AND held.version = \(value("old_version")) AND held.state = \(value("old_state"))
          AND held.expires_at > \(value("expiring_after"))
        RETURNING held.poll_hash, held.version, held.state, held.issued_at, held.expires_at, held.account_mask)
      INSERT INTO qr_changes (poll_hash, version, state, issued_at, expires_at, account_mask)
      SELECT * FROM exchanged RETURNING poll_hash
      """
    }
    let names = columns.map(\.key)
    let arrays = columns.enumerated().map { "$\($0 + 1)::\($1.value.rawValue)[]" }
    return PostgreSQLRowStatement(
      one: statement("") { name in "$\((names.firstIndex(of: name) ?? 0) + 1)" },
      many: statement("FROM unnest(\(arrays.joined(separator: ", "))) AS new (\(names.joined(separator: ", ")))") {
        name in
        "new.\(name)"
      },
      columns.map(\.value), keyColumn: 0, isChange: true)
  }()

  static let byID = PostgreSQLRowStatement.find(columns, in: "qr_sessions", by: "id", .id, at: 0)
  static let byPollSecret = PostgreSQLRowStatement.find(columns, in: "qr_sessions", by: "poll_hash", .bytes, at: 1)
  static let byReference = PostgreSQLRowStatement.find(columns, in: "qr_sessions", by: "reference_hash", .bytes, at: 2)
  static let byUserCode = PostgreSQLRowStatement.find(columns, in: "qr_sessions", by: "user_code_hash", .bytes, at: 3)
  static let firstPage = "SELECT \(columns) FROM qr_sessions WHERE expires_at > $1 AND \(known) ORDER BY id LIMIT $2"
  static let page = """
    SELECT \(columns) FROM qr_sessions WHERE id > $3 AND expires_at > $1 AND \(known) ORDER BY id LIMIT $2
    """
  /// Not those of a newer release that this one cannot read: they keep no other from being read.
  private static let known = """
    state IN (\(QRSessionState.allCases.map { String($0.rawValue) }.joined(separator: ", "))) \
    AND purpose IN (\(QRPurpose.allCases.map { String($0.rawValue) }.joined(separator: ", ")))
    """

  /// The first condition is there for the index; a redeemed row is passed over until its own time, and one that somebody
  /// holds until the next time.
  static let remove = """
    DELETE FROM qr_sessions WHERE id IN (
      SELECT id FROM qr_sessions
      WHERE expires_hour <= $1::bigint / 3600000
        AND expires_at < CASE state WHEN $2::bigint THEN $3::bigint ELSE $4::bigint END
      LIMIT $5 FOR UPDATE SKIP LOCKED)
    """

  static func values(of session: QRSession) -> [PostgreSQLValue] {
    let request = session.request
    return [
      .bytes(session.id.bytes),
      .bytes(session.keys.pollSecret.bytes),
      .bytes(session.keys.reference.bytes),
      .bytes(session.keys.userCode.bytes),
      .integer(request.purpose.rawValue),
      .text(request.clientID.description),
      .text(request.scope.description),
      .bytes(request.challenge.digest.bytes),
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
  static func changingValues(of session: QRSession) -> [PostgreSQLValue] {
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
  static func session(_ row: PostgreSQLRow) throws(StorageError) -> QRSession {
    guard let id = QRSessionID(bytes: row.bytes(0)),
      let pollSecret = Digest256(row.bytes(1)),
      let reference = Digest256(row.bytes(2)),
      let userCode = Digest256(row.bytes(3)),
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

  private static func request(_ row: PostgreSQLRow) -> QRSessionRequest? {
    guard let purpose = QRPurpose(rawValue: Int(row.integer(4))),
      let clientID = ClientID(row.text(5)),
      let scope = Scope(row.text(6)),
      let challenge = Digest256(row.bytes(7))
    else { return nil }
    let initiator = QRInitiator(
      label: row.optionalText(8).flatMap(DisplayText.init),
      platform: row.optionalText(9).flatMap(DisplayText.init),
      app: row.optionalText(10).flatMap(DisplayText.init),
      address: row.text(11),
      keyThumbprint: row.optionalText(12),
      sessionID: row.optionalBytes(13).flatMap { SessionID(bytes: $0, in: row.cell) }
    )
    return QRSessionRequest(
      purpose: purpose,
      clientID: clientID,
      scope: scope,
      challenge: PKCEChallenge(digest: challenge),
      initiator: initiator,
      deviceKey: row.optionalBytes(14),
      action: action(row)
    )
  }

  private static func action(_ row: PostgreSQLRow) -> QRAction? {
    guard let text = row.optionalText(32) else { return nil }
    let amount = row.optionalText(33).flatMap { decimal in
      row.optionalText(34).flatMap { QRAmount(decimal: decimal, currency: $0) }
    }
    return QRAction(text: text, amount: amount, reference: row.optionalText(35) ?? "")
  }

  private static func phase(_ row: PostgreSQLRow) -> QRSession.Phase? {
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

  private static func claim(_ row: PostgreSQLRow) -> QRSession.Claim? {
    guard let subject = SubjectID(bytes: row.bytes(19), in: row.cell),
      let sessionID = SessionID(bytes: row.bytes(20), in: row.cell),
      let ticket = Digest256(row.bytes(21)),
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

  private static func grant(_ row: PostgreSQLRow) -> QRSession.Grant? {
    guard let scope = row.optionalText(25).flatMap(Scope.init), let confirmed = row.optionalInteger(26) else {
      return nil
    }
    return QRSession.Grant(
      scope: scope,
      confirmed: Timestamp(millisecondsSinceEpoch: confirmed),
      // NULL in a row of before version 3: nobody knows, which is no recent proof.
      proven: row.optionalInteger(31).map { Timestamp(millisecondsSinceEpoch: $0) },
      proof: row.optionalBytes(30).flatMap(QRConfirmProof.init(bytes:))
    )
  }
}
