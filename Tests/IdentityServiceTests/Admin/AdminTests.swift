import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import StorageSQLite
import Testing

@testable import IdentityService

@Suite("What the people who run the service do")
struct AdminTests {
  private func kinds(_ harness: IdentityHarness, of sub: String = "") async throws -> [String] {
    try await harness.audit.listAuditEvents(
      IdentityV1.ListAuditEventsRequest(sub: sub), options: .service
    ).events.map { "\($0.kind) \($0.detail)" }
  }

  @Test("R17: an administrator ends one user's sessions, and everybody's")
  func endsSessions() async throws {
    let harness = try await IdentityHarness()
    let ada = try await harness.register("ada@example.com")
    let second = try await harness.signIn("ada@example.com")
    let bob = try await harness.register("bob@example.com")
    let guest = try await harness.issueGuest(try TestDevice())
    let sub = try ada.subject.orThrow().sub
    let answer = try await harness.admin.endSessions(
      IdentityV1.EndSessionsRequest(whose: .sub(sub), reason: "lost phone"), options: .service)
    #expect(answer.sessionsEnded == 2)
    for tokens in [ada.tokens, second.tokens] {
      #expect(try await !harness.isActive(tokens.orThrow().accessToken))
      await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(tokens) }
    }
    #expect(try await harness.isActive(bob.tokens.orThrow().accessToken))
    harness.clock.advance(by: .seconds(1))
    #expect(
      try await harness.admin.endSessions(
        IdentityV1.EndSessionsRequest(whose: .everybody(true)), options: .service
      ).sessionsEnded == 2)
    for tokens in [bob.tokens, guest.tokens] {
      #expect(try await !harness.isActive(tokens.orThrow().accessToken))
    }
    // Nobody is locked out: who signs in again is in.
    _ = try await harness.signIn("ada@example.com")
    let events = try await kinds(harness)
    #expect(events.contains("admin_changed ended sessions: lost phone"))
    #expect(events.contains("admin_changed ends everybody's sessions"))
  }

  @Test("R17: everybody's sessions end, however many there are, and one that begins meanwhile stays")
  func endsMany() async throws {
    let harness = try await IdentityHarness()
    let count = Limits.sessionsEndedAtOnce + 7
    for _ in 0..<count { _ = try await harness.issueGuest(try TestDevice()) }
    #expect(
      try await harness.core.perform(
        EndEverybodysSessions(
          begunUntil: harness.clock.now() - .seconds(1), limit: 10, at: harness.clock.now())) == 0)
    #expect(
      try await harness.admin.endSessions(
        IdentityV1.EndSessionsRequest(whose: .everybody(true)), options: .service
      ).sessionsEnded == Int64(count))
  }

  @Test("R15: a disabled account has no session, no way in and no open watch, until it is enabled")
  func disables() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let sub = try account.subject.orThrow().sub
    let watched = Task {
      try await harness.sessions.watchSessionEvents(
        IdentityV1.WatchSessionEventsRequest(), options: .bearer(account.tokens)
      ) { responses throws(RPCError) in
        for try await _ in responses {}
      }
    }
    while harness.core.sessionEvents.count == 0 { await Task.yield() }
    let answer = try await harness.admin.disableSubject(
      IdentityV1.DisableSubjectRequest(sub: sub, reason: "abuse"), options: .service)
    #expect(answer.sessionsEnded == 1)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await watched.value }
    #expect(try await !harness.isActive(account.tokens.orThrow().accessToken))
    await expectRefusal(.permissionDenied, "SUBJECT_DISABLED") { try await harness.signIn("ada@example.com") }
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await harness.signIn("ada@example.com", password: "not the password")
    }
    let shown = try await harness.admin.getSubject(
      IdentityV1.GetSubjectRequest(who: .identifier("ada@example.com")), options: .service)
    #expect(shown.sub == sub && shown.kind == .account && shown.disabledAt != nil && shown.sessions.isEmpty)
    #expect(shown.identities.count == 1 && !shown.identities[0].mask.contains("ada@"))
    _ = try await harness.admin.enableSubject(
      IdentityV1.EnableSubjectRequest(sub: sub), options: .service)
    #expect(try await harness.signIn("ada@example.com").subject?.sub == sub)
    #expect(try await kinds(harness, of: sub).contains("subject_disabled abuse"))
  }

  @Test("R15: a disabled guest's device gets no session, and no other guest")
  func disablesGuest() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    _ = try await harness.admin.disableSubject(
      IdentityV1.DisableSubjectRequest(sub: guest.subject?.sub ?? ""), options: .service)
    await expectRefusal(.permissionDenied, "SUBJECT_DISABLED") { try await harness.issueGuest(device) }
  }

  @Test("R10: a deleted account is gone for good: its identifier leads nowhere and may be another's, its sub may not")
  func deletes() async throws {
    let migrator = ScriptedMigrator()
    let harness = try await IdentityHarness(migrator: migrator)
    let guest = try await harness.issueGuest(try TestDevice())
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    let sub = try account.subject.orThrow().sub
    let answer = try await harness.admin.deleteSubject(
      IdentityV1.DeleteSubjectRequest(sub: sub, reason: "asked for"), options: .service)
    #expect(answer.sessionsEnded == 1 && answer.recordsDeleted)
    #expect(migrator.state.withLock { $0.purged } == [sub])
    #expect(try await !harness.isActive(account.tokens.orThrow().accessToken))
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await harness.signIn("ada@example.com") }
    let again = try await harness.register("ada@example.com")
    #expect(again.subject?.sub != sub)
    let shown = try await harness.admin.getSubject(IdentityV1.GetSubjectRequest(who: .sub(sub)), options: .service)
    #expect(shown.kind == .deleted && shown.profile?.name == "" && shown.identities.isEmpty)
    await expectRefusal(.notFound, "SUBJECT_NOT_FOUND") {
      try await harness.admin.deleteSubject(IdentityV1.DeleteSubjectRequest(sub: sub), options: .service)
    }
  }

  @Test("R8: no user's token reaches any administrator's method, and neither does nobody's")
  func access() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    for method in IdentityV1.AdminServiceMethod.allCases {
      await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
        try await harness.channel.begin(method.rpc, options: .bearer(account.tokens))
      }
      await expectRefusal(.unauthenticated, "SERVICE_ONLY") {
        try await harness.channel.begin(method.rpc, options: CallOptions())
      }
    }
    await expectRefusal(.invalidArgument, field: "whose") {
      try await harness.admin.endSessions(IdentityV1.EndSessionsRequest(), options: .service)
    }
    await expectRefusal(.invalidArgument, field: "who") {
      try await harness.admin.getSubject(IdentityV1.GetSubjectRequest(), options: .service)
    }
    await expectRefusal(.invalidArgument, field: "document") {
      try await harness.admin.getDocument(IdentityV1.GetDocumentRequest(), options: .service)
    }
  }

  @Test(
    "G7: an administrator's policies hold at once, without a restart and after one, and only under a higher version")
  func policies() async throws {
    let harness = try await IdentityHarness()
    let builtIn = try await harness.admin.getDocument(
      IdentityV1.GetDocumentRequest(document: .policies), options: .service)
    #expect(builtIn.json.contains(#""action":"favourite""#))
    let document = #"{"version": 2, "gates": [{"action": "favourite", "login": false}]}"#
    func set(_ json: String) async throws {
      _ = try await harness.admin.setDocument(
        IdentityV1.SetDocumentRequest(document: .policies, json: json, reason: "trial"), options: .service)
    }
    await expectRefusal(.invalidArgument, field: "json") { try await set("{") }
    await expectRefusal(.invalidArgument, field: "json") { try await set(#"{"version": 2, "gate": []}"#) }
    // A reason that cannot be recorded is refused before anything changes.
    await expectRefusal(.invalidArgument, field: "reason") {
      try await harness.admin.setDocument(
        IdentityV1.SetDocumentRequest(document: .policies, json: document, reason: "a\u{7}"), options: .service)
    }
    #expect(
      try await harness.access.getGatePolicy(IdentityV1.GetGatePolicyRequest(clientID: "app.test")).version < 2)
    try await set(document)
    let gates = try await harness.access.getGatePolicy(IdentityV1.GetGatePolicyRequest(clientID: "app.test"))
    #expect(gates.version == 2 && gates.gates.map(\.loginRequired) == [false])
    let refusal = await expectRefusal(.invalidArgument, field: "json") { try await set(document) }
    #expect(refusal?.message.contains("version must be above 2") == true)
    #expect(
      try await harness.admin.getDocument(IdentityV1.GetDocumentRequest(document: .policies), options: .service).json
        == document)
    let after = try await harness.restarted()
    #expect(
      try await after.access.getGatePolicy(IdentityV1.GetGatePolicyRequest(clientID: "app.test")).version == 2)
    #expect(try await kinds(after).contains("admin_changed changed the policies: trial"))
  }

  @Test("G7: the document of the policies says all that they say")
  func policyDocument() async throws {
    let text = #"""
      {"version": 3, "gates": [{"action": "buy", "login": true, "client": "app.ios"}],
       "updates": [{"client": "app.ios", "minimum": "2.0", "recommended": "2.4", "url": "https://u", "changelog": "c",
                    "view": "home"}],
       "networks": {"permit": ["10.0.0.0/8", "fd00::/8"], "companion": {"scheme": "vpn://o", "download": "https://d"}}}
      """#
    let harness = try await IdentityHarness()
    #expect(harness.policies.replace(Array(text.utf8)) == nil)
    let held = harness.policies.current
    // The file no longer says what holds, so the document is made from what does.
    #expect(harness.policies.replace(Array(text.replacing("3", with: "4", maxReplacements: 1).utf8)) == nil)
    #expect(harness.policies.current.version == 4 && harness.policies.current.updates == held.updates)
  }

  @Test("U1: an administrator's guides hold at once; a changed one needs a higher version")
  func guides() async throws {
    let harness = try await IdentityHarness()
    func set(_ json: String) async throws {
      _ = try await harness.admin.setDocument(
        IdentityV1.SetDocumentRequest(document: .guides, json: json), options: .service)
    }
    let guest = try await harness.issueGuest(try TestDevice())
    func guide(_ version: Int, _ message: String) -> String {
      #"{"guides":[{"guide_id":"tour","version":\#(version),"steps":["#
        + #"{"step_id":"a","page":"home","target":"t","message_key":"\#(message)"},"#
        + #"{"step_id":"b","page":"home","message_key":"end"}]}]}"#
    }
    try await set(guide(1, "m1"))
    let list = try await harness.guides.listGuides(IdentityV1.ListGuidesRequest(), options: .bearer(guest.tokens))
    #expect(list.guides.map(\.guideID) == ["tour"])
    await expectRefusal(.invalidArgument, field: "json") { try await set(guide(1, "m2")) }
    try await set(guide(2, "m2"))
    #expect(
      try await harness.admin.getDocument(IdentityV1.GetDocumentRequest(document: .guides), options: .service).json
        == guide(2, "m2"))
  }

  @Test("R6: a signing key made by an administrator is published first, signs later, and logs nobody out")
  func rotatesKeys() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let answer = try await harness.admin.rotateSigningKey(
      IdentityV1.RotateSigningKeyRequest(reason: "drill"), options: .service)
    #expect(try await harness.auth.getJwks(IdentityV1.GetJwksRequest()).jwksJSON.contains(answer.kid))
    #expect(
      answer.signsFrom?.seconds == (harness.clock.now() + Limits.signingKeyLead).secondsSinceEpoch)
    #expect(try await harness.isActive(guest.tokens.orThrow().accessToken))
    #expect(try await kinds(harness).contains("admin_changed signing key \(answer.kid): drill"))
  }

  @Test("R42: the audit log is trimmed at its old end by age and stays a chain; a forged beginning is noticed")
  func auditRetention() async throws {
    let harness = try await IdentityHarness(auditRetention: .seconds(30 * 86_400))
    for _ in 0..<5 { _ = try await harness.issueGuest(try TestDevice()) }
    harness.clock.advance(by: .seconds(31 * 86_400))
    for _ in 0..<3 { _ = try await harness.issueGuest(try TestDevice()) }
    func verify() async throws -> IdentityV1.VerifyAuditLogResponse {
      try await harness.audit.verifyAuditLog(IdentityV1.VerifyAuditLogRequest(), options: .service)
    }
    #expect(try await verify().verified == 8)
    await harness.rooms.upkeep.audit.trimOnce()
    let left = try await harness.core.look(ListEvents(after: 0, limit: 100))
    #expect(left.map(\.sequence) == [6, 7, 8])
    let trimmed = try await verify()
    #expect(trimmed.intact && trimmed.verified == 8)
    // All of it is old: the log goes on from its last event.
    harness.clock.advance(by: .seconds(31 * 86_400))
    await harness.rooms.upkeep.audit.trimOnce()
    #expect(try await harness.core.look(ListEvents(after: 0, limit: 100)).map(\.sequence) == [8])
    _ = try await harness.issueGuest(try TestDevice())
    let after = try await verify()
    #expect(after.intact && after.verified == 9)
    // Somebody with the file alone moves the beginning over an event.
    try await harness.database.write { db throws(StorageError) in
      _ = try db.execute("UPDATE audit_checkpoints SET seq = 9, link = (SELECT link FROM audit_events WHERE seq = 9)")
      _ = try db.execute("DELETE FROM audit_events WHERE seq = 9")
    }
    #expect(try await !verify().intact)
  }
}
