import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("A guest's way into an account, by the rules")
struct MergeTests {
  private let world = World()

  private struct Scene {
    let guest: Session
    let account: Session
    let merge: PendingMerge
  }

  /// A guest who signed in to an account, and whose data is to go there.
  private func scene() async throws -> Scene {
    let ada = try await world.account("ada").session
    let guest = try await world.guest("key")
    let choice = SignIn.GuestChoice.merge(world.id(), dueAt: world.now + .seconds(10))
    guard
      case .signedIn(let signedIn) = try await world.signIn(
        "ada", as: ada.subject, guest: SignIn.Guest(session: guest.id, choice: choice)),
      let merge = signedIn.merge
    else { throw Unexpected() }
    return Scene(guest: guest, account: signedIn.session, merge: merge)
  }

  private func stored(_ merge: PendingMerge) async throws -> PendingMerge? {
    try await world.domain.look(FindMerge(merge.id))
  }

  private func complete(_ scene: Scene, into target: SubjectID? = nil) async throws -> CompleteMerge.Outcome {
    try await world.domain.perform(
      CompleteMerge("migration", of: scene.guest.subject, into: target ?? scene.account.subject, at: world.now))
  }

  @Test("A wish is offered when it is due, again after a failure, and no more once it was taken on; its plan is kept")
  func handOver() async throws {
    let merge = try await scene().merge
    func due(_ seconds: Int) async throws -> [MergeID] {
      try await world.domain.look(DueMerges(at: world.now + .seconds(seconds), limit: 9)).map(\.id)
    }
    #expect(try await due(9) == [])
    #expect(try await due(10) == [merge.id])
    let plan = PendingMerge.Plan(id: "plan", digest: "digest")
    try await world.domain.perform(NotePlan(plan, of: merge.id))
    try await world.domain.perform(PostponeMerge(merge.id, because: "down", until: world.now + .seconds(60)))
    #expect(try await due(59) == [])
    #expect(try await due(60) == [merge.id])
    var kept = try await stored(merge).orThrow()
    #expect(kept.attempts == 1 && kept.plan == plan && kept.lastError == "down")
    try await world.domain.perform(StartMerge(merge.id, as: "migration", at: world.now))
    // What comes late, or twice, changes nothing of it.
    try await world.domain.perform(PostponeMerge(merge.id, because: "late", until: world.now))
    try await world.domain.perform(NotePlan(nil, of: merge.id))
    _ = try await world.domain.perform(AbandonMerge(merge.id, because: "late", at: world.now))
    #expect(try await due(3600) == [])
    kept = try await stored(merge).orThrow()
    #expect(kept.state == .started && kept.migration == "migration" && kept.plan == plan && kept.lastError == nil)
  }

  @Test("An abandoned wish is over: the guest may go into another account, and the first is told")
  func abandoned() async throws {
    let scene = try await scene()
    let bob = try await world.account("bob").session
    _ = try await world.domain.perform(AbandonMerge(scene.merge.id, because: "gone", at: world.now))
    _ = try await world.domain.perform(AbandonMerge(scene.merge.id, because: "again", at: world.now))
    try await world.domain.perform(StartMerge(scene.merge.id, as: "late", at: world.now))
    #expect(try await stored(scene.merge)?.state == .abandoned)
    #expect(world.heard.all.withLock { $0.flatMap(\.failedMerges) }.map(\.target) == [scene.account.subject])
    #expect(try await world.notes(.mergeAbandoned).map(\.subject) == [scene.guest.subject])
    let choice = SignIn.GuestChoice.merge(world.id(), dueAt: world.now)
    guard
      case .signedIn = try await world.signIn(
        "bob", as: bob.subject, guest: SignIn.Guest(session: scene.guest.id, choice: choice))
    else {
      Issue.record("the guest was not let go")
      return
    }
  }

  @Test("What the migrator gave up is over by its number, or by who moves where, once")
  func failed() async throws {
    let scene = try await scene()
    func fail(_ migration: String, into target: SubjectID? = nil) async throws -> Bool {
      try await world.domain.perform(
        FailMerge(
          migration, of: scene.guest.subject, into: target ?? scene.account.subject, startedWith: nil,
          because: "broken", at: world.now))
    }
    #expect(try await !fail("migration", into: world.id()))
    try await world.domain.perform(StartMerge(scene.merge.id, as: "migration", at: world.now))
    #expect(try await !fail("another"))
    #expect(try await fail("migration"))
    #expect(try await !fail("migration"))
    #expect(world.heard.all.withLock { $0.flatMap(\.failedMerges) }.map(\.migration) == ["migration"])
    #expect(try await stored(scene.merge)?.state == .abandoned)
  }

  @Test("Of forty completions at once one counts; the guest is the account's from then on, and its sessions end")
  func complete() async throws {
    let scene = try await scene()
    let outcomes = try await withThrowingTaskGroup(of: CompleteMerge.Outcome.self) { group in
      for _ in 0..<40 { group.addTask { try await complete(scene) } }
      return try await group.reduce(into: [CompleteMerge.Outcome]()) { $0.append($1) }
    }
    #expect(outcomes.filter { $0 == .already }.count == 39 && outcomes.contains(.completed(sessionsEnded: 1)))
    #expect(try await !world.isLive(scene.guest.id))
    #expect(try await world.isLive(scene.account.id))
    #expect(try await stored(scene.merge)?.state == .completed)
    // The answer to the start may come after the completion.
    try await world.domain.perform(StartMerge(scene.merge.id, as: "migration", at: world.now))
    #expect(try await stored(scene.merge)?.state == .completed)
    let bob = try await world.account("bob").session
    #expect(try await complete(scene, into: bob.subject) == .refused)
    #expect(try await complete(scene, into: world.id()) == .unknownTarget)
    let nobody = CompleteMerge("migration", of: world.id(), into: bob.subject, at: world.now)
    #expect(try await world.domain.perform(nobody) == .unknownGuest)
    #expect(try await world.guest("key").subject != scene.guest.subject)
  }

  @Test("Whoever came further in a guide wins when a guest becomes part of an account", arguments: [true, false])
  func guides(_ guestIsFurther: Bool) async throws {
    let scene = try await scene()
    let guide = try GuideID("welcome").orThrow()
    func progress(_ position: Int) -> StoredGuideProgress {
      StoredGuideProgress(
        guide: guide, progress: GuideProgress(status: .active, position: position, step: guide, revision: 3),
        updatedAt: world.now)
    }
    let (own, accounts) = (progress(guestIsFurther ? 2 : 1), progress(guestIsFurther ? 1 : 2))
    try await world.write { rows throws(StorageError) in
      try await rows.guides.put(own, of: scene.guest.subject)
      try await rows.guides.put(accounts, of: scene.account.subject)
    }
    _ = try await complete(scene)
    let merged = try await world.domain.look(FindGuideProgress(of: scene.account.subject, in: guide))
    #expect(merged.map(\.progress.position) == [2] && merged.map(\.progress.revision) == [guestIsFurther ? 4 : 3])
    #expect(try await world.domain.look(FindGuideProgress(of: scene.guest.subject)).isEmpty)
  }

  @Test("A merge is taken back as long as the guest's device has no other guest, once, from the account that it is in")
  func restore() async throws {
    let scene = try await scene()
    func complete(_ migration: String) async throws -> CompleteMerge.Outcome {
      try await world.domain.perform(
        CompleteMerge(migration, of: scene.guest.subject, into: scene.account.subject, at: world.now))
    }
    func restore(
      _ migration: String, _ guest: SubjectID? = nil, from target: SubjectID? = nil
    ) async throws -> RestoreGuest.Outcome {
      let (guest, target) = (guest ?? scene.guest.subject, target ?? scene.account.subject)
      return try await world.domain.perform(RestoreGuest(migration, of: guest, from: target, at: world.now))
    }
    #expect(try await restore("never done") == .already)
    #expect(try await complete("first") == .completed(sessionsEnded: 1))
    #expect(try await restore("first", from: world.id()) == .refused)
    #expect(try await restore("first", world.id()) == .unknownGuest)
    #expect(try await restore("first") == .restored)
    #expect(try await restore("first") == .already)
    #expect(try await world.guest("key").subject == scene.guest.subject)
    #expect(try await complete("second") == .completed(sessionsEnded: 1))
    _ = try await world.guest("key")
    #expect(try await restore("second") == .replaced)
    // What was not taken back holds.
    #expect(try await complete("second") == .already)
  }

  @Test("C14: a migration that was taken back gives up no merge that the guest's owner wished for since")
  func recalledFails() async throws {
    let scene = try await scene()
    let (guest, account) = (scene.guest.subject, scene.account.subject)
    #expect(try await world.domain.perform(RestoreGuest("gone", of: guest, from: account, at: world.now)) == .already)
    let fail = FailMerge(
      "gone", of: guest, into: account, startedWith: nil, because: "taken back", at: world.now)
    #expect(try await !world.domain.perform(fail))
    #expect(try await stored(scene.merge)?.state == .wanted)
  }

  @Test(
    "C14: a migrator that stood still switches no guest by a migration that was taken back, and takes back no other",
    arguments: WorldEngine.allCases)
  func recalled(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada").session
    let guest = try await world.guest("key").subject
    @Sendable func complete(_ migration: String) async throws -> CompleteMerge.Outcome {
      try await world.domain.perform(CompleteMerge(migration, of: guest, into: ada.subject, at: world.now))
    }
    @Sendable func restore(_ migration: String) async throws -> RestoreGuest.Outcome {
      try await world.domain.perform(RestoreGuest(migration, of: guest, from: ada.subject, at: world.now))
    }
    #expect(try await complete("first") == .completed(sessionsEnded: 1))
    #expect(try await restore("first") == .restored)
    #expect(try await complete("first") == .recalled)
    let again = try await world.guest("key")
    #expect(again.subject == guest)
    #expect(try await world.isLive(again.id))
    // The guest goes there once more, by its owner's word this time: who recalls the first has nothing to do with that.
    #expect(try await complete("second") == .completed(sessionsEnded: 1))
    #expect(try await complete("first") == .recalled)
    #expect(try await restore("first") == .already)
    #expect(try await world.domain.look(FindSubject(guest))?.kind == .merged(into: ada.subject))
    #expect(try await restore("second") == .restored)
    for migration in ["first", "second"] { #expect(try await complete(migration) == .recalled) }
    // Whoever asks at the same moment as it is taken back comes before that or not at all.
    #expect(try await complete("third") == .completed(sessionsEnded: 0))
    let outcomes = try await world.forty { number in
      number % 2 == 0 ? "\(try await complete("third"))" : "\(try await restore("third"))"
    }
    #expect(outcomes.count { $0 == "restored" } == 1 && outcomes.count { $0 == "completed(sessionsEnded: 0)" } == 0)
    #expect(try await world.domain.look(FindSubject(guest))?.isGuest == true)
    // With the guest goes what is known of it.
    let deleted = try await world.domain.perform(
      DeleteSubject(subject: guest, authority: .administrator(detail: ""), now: world.now, purgeDueAt: world.now))
    #expect(deleted == .deleted(sessionsEnded: 0))
    #expect(try await complete("first") == .refused)
    #expect(try await world.isChainWhole())
  }
}
