import Domain
import GRPC
import Glibc
import LatchkeyModel
import LatchkeyProtos
import Storage
import TestSupport
import Testing

@testable import IdentityService

@Suite("Guides")
struct GuideServiceTests {
  private static let steps = """
    {"step_id": "search", "page": "home", "target": "bar/search", "message_key": "guide.search"},
    {"step_id": "cart", "page": "home", "target": "tab/cart", "message_key": "guide.cart", "reverse": true}
    """
  private static let first = #"{"guides": [{"guide_id": "welcome", "version": 1, "steps": [\#(steps)]}]}"#
  private static let second = """
    {"guides": [{"guide_id": "welcome", "version": 2, "steps": [
      {"step_id": "hello", "page": "start", "target": "logo", "since_version": 2}, \(steps),
      {"step_id": "end", "page": "home", "since_version": 2}]}]}
    """

  private static func write(_ document: String, into folder: TemporaryFolder) throws {
    let bytes = Array(document.utf8)
    // The path and the bytes live through the calls.
    let file = unsafe open("\(folder.path)/guides.json", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    try #require(file >= 0)
    defer { close(file) }
    try #require(unsafe Glibc.write(file, bytes, bytes.count) == bytes.count)
  }

  private func harness(_ document: String = first) async throws -> IdentityHarness {
    let folder = try TemporaryFolder()
    try Self.write(document, into: folder)
    return try await IdentityHarness(folder: folder)
  }

  private func get(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?, knownVersion: Int64 = 0
  ) async throws -> IdentityV1.GetGuideResponse {
    try await harness.guides.getGuide(
      IdentityV1.GetGuideRequest(guideID: "welcome", knownVersion: knownVersion), options: .bearer(tokens))
  }

  @discardableResult
  private func report(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?, _ step: String, _ outcome: IdentityV1.StepOutcome,
    _ revision: Int64
  ) async throws -> IdentityV1.ReportStepResponse {
    try await harness.guides.reportStep(
      IdentityV1.ReportStepRequest(
        guideID: "welcome", stepID: step, outcome: outcome, expectedRevision: revision),
      options: .bearer(tokens))
  }

  /// Completes the guide from its beginning.
  private func complete(_ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?) async throws {
    try await report(harness, tokens, "search", .shown, 0)
    try await report(harness, tokens, "search", .done, 1)
    try await report(harness, tokens, "cart", .done, 2)
  }

  @Test("U1, U6: a guide's steps are as they were written, and its cursor is kept across devices and a restart")
  func get() async throws {
    let harness = try await harness()
    let phone = try await harness.register("ada@example.com")
    let guide = try await get(harness, phone.tokens)
    #expect(guide.version == 1 && guide.progress?.status == .notStarted && guide.progress?.cursor == 0)
    #expect(
      guide.steps == [
        IdentityV1.GuideStep(
          stepID: "search", page: "home", target: "bar/search", messageKey: "guide.search", sinceVersion: 1),
        IdentityV1.GuideStep(
          stepID: "cart", page: "home", target: "tab/cart", messageKey: "guide.cart", reverse: true, sinceVersion: 1),
      ])
    try await report(harness, phone.tokens, "search", .shown, 0)
    try await report(harness, phone.tokens, "search", .done, 1)
    let tablet = try await harness.signIn("ada@example.com")
    let restarted = try await harness.restarted()
    let progress = try await get(restarted, tablet.tokens).progress
    #expect(progress?.status == .active && progress?.stepID == "cart")
    #expect(progress?.cursor == 1 && progress?.revision == 2)
    let listed = try await restarted.guides.listGuides(
      IdentityV1.ListGuidesRequest(), options: .bearer(tablet.tokens))
    #expect(listed.guides.map(\.guideID) == ["welcome"] && listed.guides.first?.progress == progress)
  }

  @Test("U4, U5: a completed guide has the cursor -1 and gives no steps")
  func completed() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    try await complete(harness, guest.tokens)
    let guide = try await get(harness, guest.tokens)
    #expect(guide.progress?.status == .completed && guide.progress?.cursor == -1 && guide.progress?.revision == 3)
    #expect(guide.steps.isEmpty)
  }

  @Test("U2, U3: two devices that report at once: one moves the cursor, the other is told of the mismatch")
  func compareAndSet() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    try await report(harness, guest.tokens, "search", .shown, 0)
    let error = await expectRefusal(.aborted, "REVISION_MISMATCH") {
      try await report(harness, guest.tokens, "search", .done, 0)
    }
    #expect(error?.details.info == [RPCError.KeyValue("revision", "1")])
    let outcomes: [IdentityV1.StepOutcome] = [.done, .skipped]
    let changed = await withTaskGroup(of: Bool.self) { group in
      for index in 0..<20 {
        group.addTask {
          (try? await report(harness, guest.tokens, "search", outcomes[index % 2], 1).changed) ?? false
        }
      }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(changed == 1)
    #expect(try await get(harness, guest.tokens).progress?.revision == 2)
    await expectRefusal(.failedPrecondition, "STEP_NOT_CURRENT") {
      let fresh = try await harness.issueGuest(try TestDevice())
      try await report(harness, fresh.tokens, "search", .shown, 0)
      return try await report(harness, fresh.tokens, "cart", .shown, 1)
    }
  }

  @Test("U7: a repeated report changes nothing and gets the same answer")
  func idempotent() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    let shown = try await report(harness, guest.tokens, "search", .shown, 0)
    let again = try await report(harness, guest.tokens, "search", .shown, 0)
    #expect(shown.changed && !again.changed && shown.progress == again.progress)
    let done = try await report(harness, guest.tokens, "search", .done, 1)
    let repeated = try await report(harness, guest.tokens, "search", .done, 1)
    #expect(done.changed && !repeated.changed && done.progress == repeated.progress)
  }

  @Test("U9: going on before any page has appeared is refused and changes nothing")
  func beforeAnyPage() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    await expectRefusal(.failedPrecondition, "GUIDE_NOT_STARTED") {
      try await report(harness, guest.tokens, "search", .done, 0)
    }
    #expect(try await get(harness, guest.tokens).progress?.revision == 0)
    await expectRefusal(.notFound, "STEP_NOT_FOUND") {
      try await report(harness, guest.tokens, "nowhere", .shown, 0)
    }
    await expectRefusal(.invalidArgument, field: "outcome") {
      try await report(harness, guest.tokens, "search", .unspecified, 0)
    }
    await expectRefusal(.notFound, "GUIDE_NOT_FOUND") {
      try await harness.guides.getGuide(
        IdentityV1.GetGuideRequest(guideID: "other"), options: .bearer(guest.tokens))
    }
  }

  @Test("U8, R40: one resets one's own guide; only another service resets a cohort's")
  func reset() async throws {
    let harness = try await harness()
    let ada = try await harness.issueGuest(try TestDevice())
    let bob = try await harness.issueGuest(try TestDevice())
    for guest in [ada, bob] { try await complete(harness, guest.tokens) }
    let mine = IdentityV1.ResetGuideRequest(guideID: "welcome")
    #expect(try await harness.guides.resetGuide(mine, options: .bearer(ada.tokens)).resetCount == 1)
    #expect(try await harness.guides.resetGuide(mine, options: .bearer(ada.tokens)).resetCount == 0)
    #expect(try await get(harness, ada.tokens).steps.count == 2)
    #expect(try await get(harness, bob.tokens).progress?.status == .completed)
    let subs = [ada, bob].compactMap { $0.subject?.sub }
    let cohort = IdentityV1.ResetGuideRequest(guideID: "welcome", subs: subs)
    await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
      try await harness.guides.resetGuide(cohort, options: .bearer(ada.tokens))
    }
    #expect(try await get(harness, bob.tokens).progress?.status == .completed)
    #expect(try await harness.guides.resetGuide(cohort, options: .service).resetCount == 1)
    #expect(try await get(harness, bob.tokens).progress?.status == .notStarted)
    await expectRefusal(.invalidArgument, field: "subs") {
      try await harness.guides.resetGuide(mine, options: .service)
    }
  }

  @Test(
    "U11: a guest's progress joins the account's with the migration: further wins, completed wins",
    arguments: [true, false])
  func migration(guestIsFurther: Bool) async throws {
    let harness = try await harness()
    let account = try await harness.register("ada@example.com")
    let guest = try await harness.issueGuest(try TestDevice())
    let (far, near) = guestIsFurther ? (guest.tokens, account.tokens) : (account.tokens, guest.tokens)
    try await report(harness, near, "search", .shown, 0)
    try await complete(harness, far)
    let request = IdentityV1.CompleteMigrationRequest(
      migrationID: "m-1", guestSub: guest.subject?.sub ?? "", targetSub: account.subject?.sub ?? "")
    for _ in 0..<2 { _ = try await harness.grants.completeMigration(request, options: .service) }
    let progress = try await get(harness, account.tokens).progress
    #expect(progress?.status == .completed && progress?.revision == (guestIsFurther ? 4 : 3))
    let left = try await harness.core.look(
      FindGuideProgress(
        of: try SubjectID(guest.subject?.sub ?? "").orThrow()))
    #expect(left.isEmpty)
  }

  @Test("U11: a guest that becomes an account keeps its progress")
  func promotion() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    try await report(harness, guest.tokens, "search", .shown, 0)
    try await report(harness, guest.tokens, "search", .done, 1)
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    #expect(try await get(harness, account.tokens).progress?.stepID == "cart")
  }

  @Test(
    "U6: a newer document holds without a restart; the cursor stays at its step; older apps get the steps they know")
  func reload() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    try await report(harness, guest.tokens, "search", .shown, 0)
    let upkeep = harness.rooms.upkeep.guides
    for unusable in ["{", Self.first.replacing("home", with: "start"), #"{"guides": [{"guide_id": "welcome"}]}"#] {
      try Self.write(unusable, into: harness.folder)
      upkeep.refresh()
      #expect(try await get(harness, guest.tokens).steps.first?.page == "home")
    }
    try Self.write(Self.second, into: harness.folder)
    upkeep.refresh()
    let guide = try await get(harness, guest.tokens)
    #expect(guide.version == 2 && guide.steps.map(\.stepID) == ["hello", "search", "cart", "end"])
    #expect(guide.progress?.cursor == 1 && guide.progress?.stepID == "search")
    let older = try await get(harness, guest.tokens, knownVersion: 1)
    #expect(older.steps.map(\.stepID) == ["search", "cart"] && older.progress?.cursor == 0)
    try await report(harness, guest.tokens, "search", .done, 1)
    try await report(harness, guest.tokens, "cart", .done, 2)
    #expect(try await get(harness, guest.tokens).progress?.status == .completed)
  }

  @Test("U6, R15: a watch tells where the cursor is, of every change, and ends with its session")
  func watch() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") {
      try await harness.guides.watchGuide(
        IdentityV1.WatchGuideRequest(guideID: "welcome"), options: .bearer(guest.tokens)
      ) { (responses) async throws(RPCError) in
        var events = responses.makeAsyncIterator()
        #expect(try await events.next()?.progress?.status == .notStarted)
        do {
          try await report(harness, guest.tokens, "search", .shown, 0)
          #expect(try await events.next()?.progress?.revision == 1)
          _ = try await harness.guides.resetGuide(
            IdentityV1.ResetGuideRequest(guideID: "welcome"), options: .bearer(guest.tokens))
          #expect(try await events.next()?.progress?.status == .notStarted)
          _ = try await harness.logOut(guest.tokens)
        } catch let error as RPCError {
          throw error
        } catch {
          Issue.record(error)
        }
        _ = try await events.next()
      }
    }
    #expect(harness.core.guideWatches.count == 0)
  }

  @Test("A watch ends with UNAVAILABLE when the service stops, and none begins: the app watches another instance")
  func drain() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    for _ in ["ended", "refused"] {
      let error = await expectRefusal(.unavailable) {
        try await harness.guides.watchGuide(
          IdentityV1.WatchGuideRequest(guideID: "welcome"), options: .bearer(guest.tokens)
        ) { (responses) throws(RPCError) in
          for try await _ in responses { harness.core.guideWatches.drain() }
        }
      }
      let wait = try (error?.details.retryAfter).orThrow()
      #expect(wait >= .zero && wait <= .seconds(2))
    }
  }
}
