import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

@Suite("The schema of qr.db")
struct QRSchemaTests {
  private let start = Timestamp(secondsSinceEpoch: 1_790_000_000)

  private func digest(_ number: UInt8) throws -> Digest256 {
    try #require(Digest256([UInt8](repeating: number, count: 32)))
  }

  private func scanned() throws -> QRSession {
    let claim = QRSession.Claim(
      subject: try #require(SubjectID(bytes: [UInt8](repeating: 7, count: 16), in: .first)),
      sessionID: try #require(SessionID(bytes: [UInt8](repeating: 8, count: 16), in: .first)), ticket: try digest(11),
      ticketExpires: start + .seconds(60), requirements: QRRequirements(checkCode: true))
    return QRSession(
      restoring: QRSessionID(instance: 3, from: RandomSource { [UInt8](repeating: 3, count: $0) }),
      keys: QRSessionKeys(pollSecret: try digest(3), reference: try digest(53), userCode: try digest(103)),
      request: QRSessionRequest(
        purpose: .login, clientID: try #require(ClientID("latchkey-demo")),
        scope: try #require(Scope("profile records")), challenge: PKCEChallenge(digest: try digest(9)),
        initiator: QRInitiator(
          label: DisplayText("Living room"), platform: nil, app: DisplayText("player"), address: "2001:db8::7",
          keyThumbprint: nil, sessionID: nil),
        deviceKey: nil, action: nil),
      issued: start, expires: start + .seconds(120), version: 2, phase: .scanned(claim))
  }

  @Test("A sign-in under way survives the upgrade of the first version's database")
  func upgrade() async throws {
    let first = SQLiteSchema(versions: [QRSchema.current.versions[0]])
    let folder = try TemporaryFolder()
    let path = folder.file("old.db")
    let old = try SQLiteDatabase.open(path: path, schema: first)
    let expected = try scanned()
    let claim = try #require(expected.claim)
    _ = try await old.write { db throws(StorageError) in
      try db.execute(
        """
        INSERT INTO qr_sessions (id, poll_hash, reference_hash, user_code_hash, purpose, client_id, scope, challenge,
          initiator_label, initiator_app, initiator_address, issued_at, expires_at, version, state, sub, sid,
          ticket_hash, ticket_expires_at, needs_check_code)
        VALUES (?, ?, ?, ?, 1, 'latchkey-demo', 'profile records', ?, 'Living room', 'player', '2001:db8::7', ?, ?, 2, 2,
          ?, ?, ?, ?, 1)
        """,
        .blob(expected.id.bytes), .blob(expected.keys.pollSecret.bytes), .blob(expected.keys.reference.bytes),
        .blob(expected.keys.userCode.bytes), .blob(expected.request.challenge.digest.bytes),
        .integer(expected.issued.millisecondsSinceEpoch), .integer(expected.expires.millisecondsSinceEpoch),
        .blob(claim.subject.bytes), .blob(claim.sessionID.bytes), .blob(claim.ticket.bytes),
        .integer(claim.ticketExpires.millisecondsSinceEpoch)
      )
    }
    await old.close()
    let upgraded = SQLiteQRSessionStore(database: try SQLiteDatabase.open(path: path, schema: QRSchema.current))
    let found = try #require(try await upgraded.session(expected.id))
    #expect(found.phase.state == .scanned && found.version == 2 && found.request.action == nil)
    #expect(found.claim?.requirements == QRRequirements(checkCode: true))
    #expect(found.claim?.heardBeacon == false)
  }
}
