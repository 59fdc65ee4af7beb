import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import StorageSQLite
import Testing

@testable import IdentityService

@Suite("Audit log")
struct AuditTests {
  private func events(
    _ harness: IdentityHarness, after: Int64 = 0, of subject: String = ""
  ) async throws -> [IdentityV1.AuditEvent] {
    try await harness.audit.listAuditEvents(
      IdentityV1.ListAuditEventsRequest(after: after, limit: 1000, sub: subject), options: .service
    ).events
  }

  private func verify(_ harness: IdentityHarness) async throws -> IdentityV1.VerifyAuditLogResponse {
    try await harness.audit.verifyAuditLog(IdentityV1.VerifyAuditLogRequest(), options: .service)
  }

  @Test("R42: who signed in, when, from where and how it ended is on record, in order and without a gap")
  func story() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    harness.clock.advance(by: .seconds(60))
    _ = try await harness.logOut(account.tokens)

    let events = try await events(harness)
    #expect(
      events.map { "\($0.kind) \($0.detail)" } == [
        "session_began guest app.test", "account_created a***@e***.com", "session_ended promoted",
        "session_began password app.test", "session_ended loggedOut",
      ])
    #expect(events.map(\.sequence) == Array(1...5))
    #expect(events.allSatisfy { $0.sub == account.subject?.sub })
    #expect(events.prefix(4).allSatisfy { $0.address == "192.0.2.7" })
    #expect(events[0].at?.seconds == 1_800_000_000)
    #expect(events[4].at?.seconds == 1_800_000_060)
    #expect(events[3].sid == account.tokens?.sid)
    let last = try await self.events(harness, after: 4)
    #expect(last.map(\.sequence) == [5])
    #expect(try await self.events(harness, of: SubjectID(from: harness.core.random).description).isEmpty)
    let verified = try await verify(harness)
    #expect(verified.intact)
    #expect(verified.verified == 5)
    #expect(verified.head == events[4].link)
  }

  @Test("R42: a refused call is on record with its method, its outcome and where it came from")
  func refusals() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    await expectRefusal(.unauthenticated) { try await harness.signIn("ada@example.com", password: "wrong horse") }
    await expectRefusal(.permissionDenied) {
      try await harness.audit.listAuditEvents(
        IdentityV1.ListAuditEventsRequest(), options: .bearer(account.tokens))
    }
    await expectRefusal(.unauthenticated) { try await harness.sessions.listSessions(IdentityV1.ListSessionsRequest()) }
    await harness.core.refusals.flush()
    let refused = try await events(harness).filter { $0.kind == "call_refused" }
    #expect(
      refused.map(\.detail) == [
        "/latchkey.identity.v1.AuthService/Authenticate unauthenticated",
        "/latchkey.identity.v1.AuditService/ListAuditEvents permissionDenied",
        "/latchkey.identity.v1.SessionService/ListSessions unauthenticated",
      ])
    #expect(refused.allSatisfy { $0.address == "192.0.2.7" })
    #expect(try await verify(harness).intact)
  }

  @Test("R42: a flood of refusals is recorded as a number, not line by line")
  func flood() async throws {
    let harness = try await IdentityHarness()
    let count = Limits.auditRefusalsPerSecond + 200
    for _ in 0..<count {
      await expectRefusal(.unauthenticated) {
        try await harness.sessions.listSessions(IdentityV1.ListSessionsRequest())
      }
    }
    await harness.core.refusals.flush()
    let events = try await events(harness)
    #expect(events.filter { $0.kind == "call_refused" }.count == Limits.auditRefusalsPerSecond)
    #expect(events.last?.kind == "refusals_dropped")
    #expect(events.last?.detail == "200")
  }

  @Test("R42: the record holds no token, no password and no identifier in clear")
  func noSecrets() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    await expectRefusal(.unauthenticated) { try await harness.signIn("ada@example.com", password: "wrong\nhorse") }
    await harness.core.refusals.flush()
    let text = try await events(harness).map { "\($0)" }.joined()
    for secret in [
      IdentityHarness.password, "wrong\nhorse", "ada@example.com", account.tokens?.accessToken ?? "?",
      account.tokens?.refreshToken ?? "?", guest.tokens?.refreshToken ?? "?",
    ] {
      #expect(!text.contains(secret))
    }
  }

  @Test(
    "R42: whoever tampers with the file is noticed: the chain breaks at the event",
    arguments: [
      ("UPDATE audit_events SET detail = 'guest app.evil' WHERE seq = 3", Int64(2)),
      ("UPDATE audit_events SET sub = zeroblob(16) WHERE seq = 1", 0),
      ("UPDATE audit_events SET at = at + 1 WHERE seq = 5", 4),
      ("DELETE FROM audit_events WHERE seq = 4", 3),
      ("UPDATE audit_events SET link = zeroblob(32) WHERE seq = 2", 1),
    ])
  func tampering(statement: String, verified: Int64) async throws {
    let harness = try await IdentityHarness()
    for _ in 0..<5 { _ = try await harness.issueGuest(try TestDevice()) }
    #expect(try await verify(harness).intact)
    try await harness.database.write { db throws(StorageError) in
      _ = try db.execute(statement)
    }
    let answer = try await verify(harness)
    #expect(!answer.intact)
    #expect(answer.verified == verified)
  }

  @Test("R42: the chain goes on over a restart, and a change that is rolled back leaves no event")
  func restart() async throws {
    var harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await harness.register("ada@example.com") }
    let before = try await events(harness).count
    harness = try await harness.restarted()
    #expect(try await events(harness).count == before)
    _ = try await harness.signIn("ada@example.com")
    let verified = try await verify(harness)
    #expect(verified.intact)
    #expect(verified.verified == Int64(before) + 1)
  }

  @Test("R54: refused calls fill the log up to a bound, and beyond it are a number an hour")
  func boundedRefusals() async throws {
    let harness = try await IdentityHarness(auditRefusals: 20)
    let unknown = CommonV1.TokenSet(accessToken: "made-up")
    func refuse(_ count: Int) async {
      for _ in 0..<count {
        await #expect(throws: RPCError.self) { try await harness.logOut(unknown) }
      }
      await harness.core.refusals.flush()
    }
    for _ in 0..<50 {
      await refuse(10)
      harness.clock.advance(by: .seconds(1))
    }
    let kinds = try await harness.core.look(ListEvents(after: 0, limit: 1000)).map(\.note.kind)
    #expect(kinds.count { $0 == .callRefused } == 20)
    #expect(kinds.count { $0 == .refusalsDropped } == 1)
    harness.clock.advance(by: .seconds(3600))
    await refuse(10)
    let later = try await harness.core.look(ListEvents(after: 0, limit: 1000)).map(\.note)
    #expect(later.count { $0.kind == .callRefused } == 20)
    #expect(later.last?.kind == .refusalsDropped && later.last.flatMap { Int($0.detail) } ?? 0 > 400)
    // What concerns somebody goes on being recorded.
    _ = try await harness.register("ada@example.com")
    let last = try await harness.core.look(ListEvents(after: 0, limit: 1000)).last?.note.kind
    #expect(last != .refusalsDropped)
  }
}
