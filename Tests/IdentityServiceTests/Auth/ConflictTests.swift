import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("A guest signs in to an account that exists")
struct ConflictTests {
  private struct Scene {
    let harness: IdentityHarness
    let migrator = ScriptedMigrator()
    let device: TestDevice
    let account: IdentityV1.RegisterResponse
    let guest: IdentityV1.IssueGuestResponse

    init() async throws {
      harness = try await IdentityHarness(migrator: migrator)
      device = try TestDevice()
      account = try await harness.register("ada@example.com")
      guest = try await harness.issueGuest(device)
    }

    func redeem(
      _ conflict: IdentityV1.Conflict?, _ choice: IdentityV1.OnConflict, guest: CommonV1.TokenSet? = nil
    ) async throws -> IdentityV1.AuthenticateResponse {
      try await harness.auth.authenticate(
        IdentityV1.AuthenticateRequest(
          clientID: "app.test",
          guestToken: (guest ?? self.guest.tokens)?.accessToken ?? "",
          onConflict: choice,
          linkTicket: try conflict.orThrow().linkTicket
        ))
    }
  }

  @Test("A conflict is reported before anything happens: whose account, what the guest holds, what can be chosen")
  func report() async throws {
    let scene = try await Scene()
    let answer = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens)
    let conflict = try answer.conflict.orThrow()
    #expect(answer.tokens == nil && answer.subject == nil)
    #expect(conflict.existingMask == "a***@e***.com")
    #expect(conflict.choices == [.merge, .switch])
    #expect(conflict.expiresIn == 300)
    #expect(conflict.guestSummary?.collections == [IdentityV1.CollectionCount(collection: "cart", count: 3)])
    #expect(conflict.guestSummary?.createdAt?.seconds == scene.harness.clock.now().secondsSinceEpoch)
    #expect(try await scene.harness.isActive(try scene.guest.tokens.orThrow().accessToken))
    #expect(scene.migrator.state.withLock { $0.plans.isEmpty })
  }

  @Test("The ticket of a conflict stands for the credential, once, on the guest's device, for five minutes")
  func ticket() async throws {
    let scene = try await Scene()
    let stolen = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens).conflict
    let thief = try await scene.harness.issueGuest(try TestDevice())
    await expectRefusal(.failedPrecondition, "LINK_TICKET_INVALID") {
      try await scene.redeem(stolen, .switch, guest: thief.tokens)
    }
    scene.harness.clock.advance(by: .seconds(300))
    await expectRefusal(.failedPrecondition, "LINK_TICKET_INVALID") { try await scene.redeem(stolen, .switch) }

    let older = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens).conflict
    let newer = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens).conflict
    await expectRefusal(.failedPrecondition, "LINK_TICKET_INVALID") { try await scene.redeem(older, .merge) }
    scene.harness.clock.advance(by: .seconds(299))
    let signedIn = try await scene.redeem(newer, .merge)
    #expect(signedIn.subject?.sub == scene.account.subject?.sub)
    await expectRefusal(.failedPrecondition, "LINK_TICKET_INVALID") { try await scene.redeem(newer, .merge) }
  }

  @Test("R49: a ticket that was given for a custom secret is void once the secret was replaced")
  func replacedSecret() async throws {
    let scene = try await Scene()
    func secret(_ text: String) -> IdentityV1.CustomSecretCredential {
      IdentityV1.CustomSecretCredential(id: "another-name-1234", secret: text)
    }
    _ = try await scene.harness.link(.customSecret(secret("a-secret-of-before")), scene.account.tokens)
    let reported = try await scene.harness.authenticate(
      .customSecret(secret("a-secret-of-before")), guest: scene.guest.tokens, onConflict: .report)
    _ = try await scene.harness.link(.customSecret(secret("a-secret-of-now-on")), scene.account.tokens)
    await expectRefusal(.failedPrecondition, "LINK_TICKET_INVALID") {
      try await scene.redeem(reported.conflict, .switch)
    }
  }

  @Test("A ticket outlives a restart; of twenty concurrent redemptions exactly one succeeds")
  func ticketConcurrency() async throws {
    let scene = try await Scene()
    let conflict = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens).conflict
    let restarted = try await scene.harness.restarted(migrator: scene.migrator)
    let request = IdentityV1.AuthenticateRequest(
      clientID: "app.test",
      guestToken: try scene.guest.tokens.orThrow().accessToken,
      onConflict: .merge,
      linkTicket: try conflict.orThrow().linkTicket
    )
    let succeeded = await successes(20, refusedWith: "LINK_TICKET_INVALID") { _ in
      _ = try await restarted.auth.authenticate(request)
    }
    #expect(succeeded == 1)
  }

  @Test("A ticket needs a choice and the guest's token, and stands alone")
  func ticketFields() async throws {
    let scene = try await Scene()
    let conflict = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens).conflict
    await expectRefusal(.invalidArgument, field: "on_conflict") { try await scene.redeem(conflict, .report) }
    await expectRefusal(.invalidArgument, field: "on_conflict") { try await scene.redeem(conflict, .unrecognized(9)) }
    await expectRefusal(.invalidArgument, field: "guest_token") {
      try await scene.redeem(conflict, .switch, guest: CommonV1.TokenSet())
    }
    await expectRefusal(.invalidArgument, field: "link_ticket") {
      try await scene.redeem(IdentityV1.Conflict(linkTicket: "something else"), .switch)
    }
    await expectRefusal(.invalidArgument, field: "method") {
      try await scene.harness.auth.authenticate(IdentityV1.AuthenticateRequest(clientID: "app.test"))
    }
  }

  @Test("G19: SWITCH leaves the guest's data alone, and logging out brings the same guest back in one call")
  func switching() async throws {
    let scene = try await Scene()
    let account = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens, onConflict: .switch)
    #expect(account.subject?.sub == scene.account.subject?.sub)
    #expect(account.accountChange?.previousSub == scene.guest.subject?.sub)
    #expect(account.accountChange?.migrationID.isEmpty == true)
    #expect(try await !scene.harness.isActive(try scene.guest.tokens.orThrow().accessToken))
    let out = try await scene.harness.logOut(account.tokens, next: .guest)
    #expect(out.sessionsEnded == 1)
    #expect(out.subject?.sub == scene.guest.subject?.sub)
    #expect(out.storageNamespace == scene.guest.storageNamespace)
    #expect(try await scene.harness.isActive(try out.tokens.orThrow().accessToken))
    #expect(try await !scene.harness.isActive(try account.tokens.orThrow().accessToken))
    #expect(try await scene.harness.issueGuest(scene.device).subject?.sub == scene.guest.subject?.sub)
  }

  @Test("MERGE signs in, starts one migration with the tokens of both, and the guest's token dies only at commit")
  func merging() async throws {
    let scene = try await Scene()
    let account = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens, onConflict: .merge)
    #expect(account.subject?.sub == scene.account.subject?.sub)
    #expect(account.accountChange?.migrationID == "migration-1")
    #expect(account.accountChange?.migrationPending == false)
    let (plans, starts, credentials) = scene.migrator.state.withLock { ($0.plans, $0.starts, $0.credentials) }
    #expect(plans.count == 1 && starts.count == 1)
    #expect(credentials == ["Bearer lks_" + String(repeating: "A", count: 43)])
    #expect(plans[0].firstLoginOnDevice)
    let now = scene.harness.clock.now()
    #expect(
      try scene.harness.core.tokens.verify(plans[0].guestProof, at: now).subject == scene.guest.subject?.sub)
    #expect(
      try scene.harness.core.tokens.verify(plans[0].targetProof, at: now).subject == account.subject?.sub)

    let guestToken = try scene.guest.tokens.orThrow().accessToken
    #expect(try await scene.harness.isActive(guestToken))
    let complete = IdentityV1.CompleteMigrationRequest(
      migrationID: "migration-1", guestSub: scene.guest.subject?.sub ?? "", targetSub: account.subject?.sub ?? "")
    _ = try await scene.harness.grants.completeMigration(complete, options: .service)
    #expect(try await !scene.harness.isActive(guestToken))
    #expect(try await scene.harness.isActive(try account.tokens.orThrow().accessToken))
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await scene.harness.refresh(scene.guest.tokens) }
    // Repeated, as after a lost answer.
    _ = try await scene.harness.grants.completeMigration(complete, options: .service)
    let next = try await scene.harness.issueGuest(scene.device)
    #expect(next.created && next.subject?.sub != scene.guest.subject?.sub)
  }

  @Test("A merge is not lost when the migrator is down: it starts after a restart, once")
  func migratorDown() async throws {
    let scene = try await Scene()
    scene.migrator.state.withLock { $0.isUp = false }
    let account = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens, onConflict: .merge)
    #expect(account.tokens != nil)
    #expect(account.accountChange?.migrationID.isEmpty == true)
    #expect(account.accountChange?.migrationPending == true)

    let restarted = try await scene.harness.restarted(migrator: scene.migrator)
    restarted.clock.advance(by: .seconds(3600))
    scene.migrator.state.withLock { $0.isUp = true }
    let offering = Task { await restarted.core.migrator?.run() }
    try await eventually { scene.migrator.state.withLock { $0.starts.count } == 1 }
    // Asked again, the same sign-in tells the migration's number and starts no other. The guest's token has expired by
    // now, so the app refreshes it first.
    let guest = try await restarted.refresh(scene.guest.tokens)
    try await eventually {
      try await restarted.signIn("ada@example.com", guest: guest, onConflict: .merge).accountChange?.migrationID
        == "migration-1"
    }
    offering.cancel()
    await offering.value
    #expect(scene.migrator.state.withLock { $0.migrations.count } == 1)
  }

  @Test("C14: a merge whose offer the end of an instance broke off is due at once")
  func brokenOff() async throws {
    let scene = try await Scene()
    scene.migrator.state.withLock { $0.isUp = false }
    _ = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens, onConflict: .merge)
    scene.harness.clock.advance(by: .seconds(60))
    scene.migrator.state.withLock { ($0.isUp, $0.isSilent) = (true, true) }
    func due() async throws -> Int {
      try await scene.harness.core.look(DueMerges(at: scene.harness.clock.now(), limit: 9)).count
    }
    let offering = Task { await scene.harness.core.migrator?.run() }
    try await eventually { scene.migrator.state.withLock { $0.unanswered } == 1 }
    #expect(try await due() == 0)
    offering.cancel()
    await offering.value
    #expect(try await due() == 1)
  }

  @Test("R49: a right sign-in counts as no try while it waits for the migrator", .timeLimit(.minutes(1)))
  func triesWhileWaiting() async throws {
    let scene = try await Scene()
    let (harness, guest) = (scene.harness, scene.guest.tokens)
    scene.migrator.state.withLock { $0.isSilent = true }
    for (number, choice) in [IdentityV1.OnConflict.report, .merge].enumerated() {
      for _ in 0..<9 {
        await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
          try await harness.signIn("ada@example.com", password: "not the password")
        }
      }
      let waiting = Task { try await harness.signIn("ada@example.com", guest: guest, onConflict: choice) }
      try await eventually { scene.migrator.state.withLock { $0.unanswered } == number + 1 }
      _ = try await harness.signIn("ada@example.com")
      waiting.cancel()
      _ = await waiting.result
    }
  }

  @Test("A plan that goes stale is made again, and the merge keeps its idempotency key")
  func stalePlan() async throws {
    let scene = try await Scene()
    scene.migrator.state.withLock {
      $0.failStarts = [RPCError(.aborted, "stale", reason: "STALE_PLAN"), RPCError(.notFound, "expired")]
    }
    let account = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens, onConflict: .merge)
    #expect(account.accountChange?.migrationID == "migration-1")
    let starts = scene.migrator.state.withLock { $0.starts }
    #expect(starts.map(\.planID) == ["plan-1", "plan-2", "plan-3"])
    #expect(Set(starts.map(\.idempotencyKey)).count == 1)
  }

  @Test("While a guest is on its way into an account it can neither be promoted nor go into another one")
  func whileMerging() async throws {
    let scene = try await Scene()
    _ = try await scene.harness.register("bob@example.com")
    _ = try await scene.harness.signIn("ada@example.com", guest: scene.guest.tokens, onConflict: .merge)
    await expectRefusal(.failedPrecondition, "MIGRATION_RUNNING") {
      try await scene.harness.register("eve@example.com", guest: scene.guest.tokens)
    }
    await expectRefusal(.failedPrecondition, "MIGRATION_RUNNING") {
      try await scene.harness.signIn("bob@example.com", guest: scene.guest.tokens, onConflict: .merge)
    }
  }

  @Test("CompleteMigration refuses what is no guest, no account, or on its way elsewhere")
  func completionRefusals() async throws {
    let scene = try await Scene()
    let harness = scene.harness
    let (guest, account) = (scene.guest.subject?.sub ?? "", scene.account.subject?.sub ?? "")
    let unknown = SubjectID(from: harness.core.random).description
    func complete(_ guest: String, _ target: String, _ migration: String = "m1") async throws {
      _ = try await harness.grants.completeMigration(
        IdentityV1.CompleteMigrationRequest(migrationID: migration, guestSub: guest, targetSub: target),
        options: .service)
    }
    await expectRefusal(.notFound, "GUEST_NOT_FOUND") { try await complete(unknown, account) }
    await expectRefusal(.notFound, "ACCOUNT_NOT_FOUND") { try await complete(guest, unknown) }
    await expectRefusal(.failedPrecondition, "GUEST_GONE") { try await complete(account, account) }
    await expectRefusal(.invalidArgument, field: "migration_id") { try await complete(guest, account, "") }
    await expectRefusal(.invalidArgument, field: "guest_sub") { try await complete("x", account) }
    try await complete(guest, account)
    let other = try await harness.register("bob@example.com").subject?.sub ?? ""
    await expectRefusal(.failedPrecondition, "GUEST_GONE") { try await complete(guest, other) }
  }
}

/// Waits until `condition` holds, at most ten seconds.
func eventually(_ condition: () async throws -> Bool) async throws {
  let deadline = ContinuousClock.now + .seconds(10)
  while ContinuousClock.now < deadline {
    if try await condition() { return }
    try await Task.sleep(for: .milliseconds(20))
  }
  #expect(try await condition(), "it did not come about within ten seconds")
}
