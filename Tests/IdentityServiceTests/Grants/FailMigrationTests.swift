import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Merges that do not come about")
struct FailMigrationTests {
  private struct Scene {
    let migrator = ScriptedMigrator()
    let harness: IdentityHarness
    let device: TestDevice
    let guest: IdentityV1.IssueGuestResponse
    let account: IdentityV1.RegisterResponse

    init() async throws {
      harness = try await IdentityHarness(migrator: migrator)
      device = try TestDevice()
      account = try await harness.register("ada@example.com")
      guest = try await harness.issueGuest(device)
    }

    func merge() async throws -> IdentityV1.AuthenticateResponse {
      try await harness.signIn("ada@example.com", guest: guest.tokens, onConflict: .merge)
    }

    func fail(_ migration: String, target: String? = nil, startedWith key: String = "") async throws {
      _ = try await harness.grants.failMigration(
        IdentityV1.FailMigrationRequest(
          migrationID: migration, guestSub: guest.subject?.sub ?? "", targetSub: target ?? account.subject?.sub ?? "",
          reason: "verify: 1 record was not merged", idempotencyKey: key),
        options: .service)
    }

    /// The ids of wishes that the migrator has not taken on.
    func waiting() async throws -> [String] {
      let time = harness.clock.now() + .seconds(86_400)
      return try await harness.core.look(DueMerges(at: time, limit: 10)).map { "\($0.id)" }
    }
  }

  @Test("R39: a migration that failed lets its guest go, tells the account, and is on record")
  func failed() async throws {
    let scene = try await Scene()
    let signedIn = try await scene.merge()
    let migration = try signedIn.accountChange.orThrow().migrationID
    await expectRefusal(.failedPrecondition, "MIGRATION_RUNNING") {
      try await scene.harness.register("new@example.com", guest: scene.guest.tokens)
    }
    let events = try await scene.harness.sessions.watchSessionEvents(
      IdentityV1.WatchSessionEventsRequest(), options: .bearer(signedIn.tokens)
    ) { responses throws(RPCError) in
      var seen: [IdentityV1.WatchSessionEventsResponse] = []
      for try await event in responses {
        seen.append(event)
        if event.event == .watching {
          do { try await scene.fail(migration) } catch { throw RPCError(.internal, "\(error)") }
        } else {
          break
        }
      }
      return seen
    }
    #expect(events.last?.event == .migrationFailed && events.last?.migrationID == migration)
    // Saying it again changes nothing, and the guest is one like any other.
    try await scene.fail(migration)
    #expect(
      try await scene.harness.register("new@example.com", guest: scene.guest.tokens).accountChange?.promoted == true)
    let log = try await scene.harness.audit.listAuditEvents(
      IdentityV1.ListAuditEventsRequest(sub: scene.guest.subject?.sub ?? ""), options: .service
    ).events.map(\.kind)
    #expect(log.count { $0 == "merge_abandoned" } == 1)
  }

  @Test("R39: after a failure the same guest can be merged again, as another migration")
  func again() async throws {
    let scene = try await Scene()
    let first = try await scene.merge().accountChange?.migrationID ?? ""
    try await scene.fail(first)
    let second = try await scene.merge().accountChange?.migrationID ?? ""
    #expect(!second.isEmpty && second != first)
    // What is said of the first is not taken for the second.
    try await scene.fail(first)
    await expectRefusal(.failedPrecondition, "MIGRATION_RUNNING") {
      try await scene.harness.register("new@example.com", guest: scene.guest.tokens)
    }
  }

  @Test("C14: a worker that stood still and says once more what failed long ago gives up no wish that was made since")
  func late() async throws {
    let scene = try await Scene()
    let first = try await scene.merge().accountChange?.migrationID ?? ""
    let key = try scene.migrator.state.withLock { $0.starts.last }.orThrow().idempotencyKey
    try await scene.fail(first, startedWith: key)
    // The guest's owner signs in once more while the migrator is away: that wish has no number yet.
    scene.migrator.state.withLock { $0.isUp = false }
    #expect(try await scene.merge().accountChange?.migrationPending == true)
    let wish = try #require(try await scene.waiting().first)
    #expect(wish != key)
    try await scene.fail(first, startedWith: key)
    #expect(try await scene.waiting() == [wish])
    await expectRefusal(.failedPrecondition, "MIGRATION_RUNNING") {
      try await scene.harness.register("new@example.com", guest: scene.guest.tokens)
    }
    // The migrator took it on and gave it up, and its answer with the number was lost.
    try await scene.fail("second", startedWith: wish)
    #expect(try await scene.waiting().isEmpty)
    #expect(
      try await scene.harness.register("new@example.com", guest: scene.guest.tokens).accountChange?.promoted == true)
  }

  @Test("R39: a failure is taken for nobody else's merge, and only from the migrator")
  func foreign() async throws {
    let scene = try await Scene()
    let migration = try await scene.merge().accountChange?.migrationID ?? ""
    try await scene.fail(migration, target: SubjectID(from: scene.harness.core.random).description)
    await expectRefusal(.failedPrecondition, "MIGRATION_RUNNING") {
      try await scene.harness.register("new@example.com", guest: scene.guest.tokens)
    }
    await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
      try await scene.harness.channel.begin(
        IdentityV1.GrantServiceMethod.failMigration.rpc, options: .bearer(scene.account.tokens))
    }
  }

  @Test("R39: a merge that the migrator will never take is given up: refused for good, or for a week")
  func givenUp() async throws {
    for isFinal in [true, false] {
      let scene = try await Scene()
      scene.migrator.state.withLock { $0.isUp = false }
      #expect(try await scene.merge().accountChange?.migrationPending == true)
      if isFinal {
        scene.migrator.state.withLock { state in
          state.isUp = true
          state.failPlans = [RPCError(.failedPrecondition, "moved", reason: "SUBJECT_MIGRATED")]
        }
      }
      scene.harness.clock.advance(by: isFinal ? .seconds(60) : Limits.mergePatience)
      let now = scene.harness.clock.now()
      let due = try await scene.harness.core.look(DueMerges(at: now, limit: 10))
      #expect(due.count == 1)
      for merge in due { _ = await scene.harness.core.migrator?.handOver(merge) }
      #expect(try await scene.harness.core.look(DueMerges(at: now + .seconds(86_400), limit: 10)).isEmpty)
      let guest = try await scene.harness.issueGuest(scene.device)
      #expect(
        try await scene.harness.register("new@example.com", guest: guest.tokens).accountChange?.promoted == true)
    }
  }

  @Test("R39: a merge into an account that was deleted meanwhile is given up")
  func targetDeleted() async throws {
    let scene = try await Scene()
    scene.migrator.state.withLock { $0.isUp = false }
    _ = try await scene.merge()
    _ = try await scene.harness.admin.deleteSubject(
      IdentityV1.DeleteSubjectRequest(sub: scene.account.subject?.sub ?? ""), options: .service)
    scene.migrator.state.withLock { $0.isUp = true }
    scene.harness.clock.advance(by: .seconds(60))
    let now = scene.harness.clock.now()
    for merge in try await scene.harness.core.look(DueMerges(at: now, limit: 10)) {
      _ = await scene.harness.core.migrator?.handOver(merge)
    }
    #expect(scene.migrator.state.withLock { $0.plans.isEmpty })
    #expect(
      try await scene.harness.register("new@example.com", guest: scene.guest.tokens).accountChange?.promoted == true)
  }

  @Test("R39: who agreed to a merge and then signed out has still agreed to it")
  func signedOut() async throws {
    let scene = try await Scene()
    scene.migrator.state.withLock { $0.isUp = false }
    let signedIn = try await scene.merge()
    _ = try await scene.harness.logOut(signedIn.tokens, scope: .global)
    scene.migrator.state.withLock { $0.isUp = true }
    scene.harness.clock.advance(by: .seconds(60))
    let now = scene.harness.clock.now()
    for merge in try await scene.harness.core.look(DueMerges(at: now, limit: 10)) {
      #expect(await scene.harness.core.migrator?.handOver(merge) != nil)
    }
    let plan = try scene.migrator.state.withLock { $0.plans.last }.orThrow()
    let claims = try scene.harness.core.tokens.verify(plan.targetProof, at: now)
    #expect(claims.subject == scene.account.subject?.sub && !claims.isGuest)
    #expect(SessionID(claims.sessionID).map { scene.harness.core.endedSessions.hasEnded($0) } == false)
  }
}
