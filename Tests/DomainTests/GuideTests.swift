import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("Progress in guides, by the rules")
struct GuideTests {
  private let world = World()

  private func guide() throws -> GuideDefinition {
    try GuideDefinition(
      id: GuideID("welcome").orThrow(), version: 1,
      steps: ["one", "two"].map { id in
        try GuideStep(
          id: GuideID(id).orThrow(), page: "home", target: "button", messageKey: id, isReversed: false, sinceVersion: 1)
      }
    ).orThrow()
  }

  private func report(
    _ step: String, _ outcome: GuideProgress.Outcome, expecting revision: Int64, by session: Session
  ) async throws -> ReportStep.Outcome {
    try await world.domain.perform(
      ReportStep(
        session: session.id, guide: try guide(), step: try GuideID(step).orThrow(), outcome: outcome,
        expectedRevision: revision, now: world.now))
  }

  private func progress(of subject: SubjectID) async throws -> [StoredGuideProgress] {
    try await world.domain.look(FindGuideProgress(of: subject))
  }

  @Test("A report is kept for the caller's subject; one that changes nothing writes nothing")
  func reports() async throws {
    let session = try await world.guest("key")
    let began = world.now
    guard case .taken(.changed, let first) = try await report("one", .shown, expecting: 0, by: session) else {
      Issue.record("the first report was refused")
      return
    }
    world.clock.advance(by: .seconds(9))
    #expect(try await report("one", .shown, expecting: 0, by: session) == .taken(.already, first))
    #expect(try await report("one", .done, expecting: 7, by: session) == .taken(.revisionMismatch, first))
    #expect(try await progress(of: session.subject) == [first] && first.updatedAt == began)
    let other = try GuideID("other").orThrow()
    #expect(try await world.domain.look(FindGuideProgress(of: session.subject, in: other)).isEmpty)
    #expect(try await world.domain.look(FindGuideProgress(of: session.subject, in: first.guide)) == [first])
    _ = try await world.domain.perform(EndSession(session.id, because: .loggedOut, at: world.now))
    #expect(try await report("one", .done, expecting: 1, by: session) == .callerEnded)
  }

  @Test("Of forty reports of one revision at once one changes it")
  func atOnce() async throws {
    let session = try await world.guest("key")
    _ = try await report("one", .shown, expecting: 0, by: session)
    let changed = try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<40 {
        group.addTask {
          guard case .taken(.changed, _) = try await report("one", .done, expecting: 1, by: session) else {
            return false
          }
          return true
        }
      }
      return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(changed == 1)
  }

  @Test("A reset tells whose progress it changed, and counts as a change")
  func reset() async throws {
    let (began, other) = (try await world.guest("key"), try await world.guest("other"))
    _ = try await report("one", .shown, expecting: 0, by: began)
    let id = try guide().id
    let reset = ResetGuide(id, of: [began.subject, other.subject, world.id()], at: world.now)
    #expect(try await world.domain.perform(reset) == [began.subject])
    #expect(try await world.domain.perform(reset) == [])
    #expect(try await progress(of: began.subject).map(\.progress.status) == [.notStarted])
    #expect(try await progress(of: began.subject).map(\.progress.revision) == [2])
  }
}
