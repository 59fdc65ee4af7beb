import LatchkeyModel
import Testing

@Suite("Progress in a guide")
struct GuideProgressTests {
  static func guide(_ steps: [String], version: Int64 = 1, endsWith end: String? = nil) throws -> GuideDefinition {
    func step(_ name: String, _ target: String) throws -> GuideStep {
      let id = try #require(GuideID(name))
      return GuideStep(
        id: id, page: "home", target: target, messageKey: "m", isReversed: false,
        sinceVersion: 1)
    }
    let all = try steps.map { try step($0, "path") } + (end.map { [try step($0, "")] } ?? [])
    let id = try #require(GuideID("welcome"))
    return try #require(GuideDefinition(id: id, version: version, steps: all))
  }

  private func id(_ name: String) throws -> GuideID { try #require(GuideID(name)) }

  private func expectReport(
    _ outcome: GuideProgress.Outcome, _ step: String, _ revision: Int64, _ expected: GuideProgress.Transition,
    of progress: inout GuideProgress, in guide: GuideDefinition, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let answer = progress.report(outcome, of: try id(step), in: guide, expecting: revision)
    #expect(answer == expected, sourceLocation: sourceLocation)
  }

  @Test("U3 U7 U9: every outcome of every step, in every state")
  func table() throws {
    let guide = try Self.guide(["a", "b", "c"])
    let states: [GuideProgress] = [
      GuideProgress(),
      GuideProgress(status: .active, position: 1, step: try id("b"), revision: 2),
      GuideProgress(status: .completed, position: 3, revision: 4),
    ]
    let expected: [[[GuideProgress.Transition]]] = [
      // shown, done, skipped of a, b, c
      [
        [.changed, .notStarted, .notStarted], [.notCurrent, .notStarted, .notStarted],
        [.notCurrent, .notStarted, .notStarted],
      ],
      [[.already, .already, .already], [.already, .changed, .changed], [.notCurrent, .notCurrent, .notCurrent]],
      [[.already, .already, .already], [.already, .already, .already], [.already, .already, .already]],
    ]
    for (state, steps) in zip(states, expected) {
      for (name, outcomes) in zip(["a", "b", "c"], steps) {
        for (outcome, transition) in zip(GuideProgress.Outcome.allCases, outcomes) {
          var progress = state
          try expectReport(outcome, name, state.revision, transition, of: &progress, in: guide)
          #expect((progress != state) == (transition == .changed))
          var other = state
          let answer = other.report(outcome, of: try id(name), in: guide, expecting: state.revision + 1)
          #expect(answer == (transition == .already ? .already : .revisionMismatch))
          #expect(other == state)
        }
      }
    }
    var progress = GuideProgress()
    try expectReport(.shown, "z", 0, .unknownStep, of: &progress, in: guide)
  }

  @Test("U4: the step after the last completes the guide, and so does arriving at its end")
  func completes() throws {
    for guide in [try Self.guide(["a", "b"]), try Self.guide(["a", "b"], endsWith: "end")] {
      var progress = GuideProgress()
      try expectReport(.shown, "a", 0, .changed, of: &progress, in: guide)
      try expectReport(.done, "a", 1, .changed, of: &progress, in: guide)
      #expect(progress.status == .active && progress.step?.description == "b")
      try expectReport(.skipped, "b", 2, .changed, of: &progress, in: guide)
      #expect(progress.status == .completed && progress.step == nil && progress.revision == 3)
    }
  }

  @Test("U6: the cursor follows its step into a newer version, and keeps its place when the step is gone")
  func versions() throws {
    let progress = GuideProgress(status: .active, position: 1, step: try id("b"), revision: 2)
    #expect(progress.cursor(in: try Self.guide(["new", "a", "b"], version: 2)) == 2)
    #expect(progress.cursor(in: try Self.guide(["a", "c"], version: 2)) == 1)
    #expect(progress.cursor(in: try Self.guide(["a"], version: 2)) == 1)
  }

  @Test("U8: a reset begins anew and refuses what was reported before it")
  func reset() throws {
    let guide = try Self.guide(["a", "b"])
    var progress = GuideProgress(status: .completed, position: 2, revision: 3)
    let isReset = progress.reset()
    #expect(isReset && progress == GuideProgress(revision: 4))
    let isResetAgain = progress.reset()
    #expect(!isResetAgain)
    try expectReport(.shown, "a", 3, .revisionMismatch, of: &progress, in: guide)
  }

  @Test("U11: whoever came further wins, completed wins over all, and the revision passes both")
  func merge() throws {
    let early = GuideProgress(status: .active, position: 0, step: try id("a"), revision: 9)
    let late = GuideProgress(status: .active, position: 2, step: try id("c"), revision: 3)
    let done = GuideProgress(status: .completed, position: 1, revision: 2)
    let all = [GuideProgress(), early, late, done]
    for (i, account) in all.enumerated() {
      for (j, guest) in all.enumerated() {
        var merged = account
        let isChanged = merged.merge(guest)
        #expect(isChanged == (j > i))
        let winner = all[max(i, j)]
        #expect(merged.status == winner.status && merged.position == winner.position && merged.step == winner.step)
        #expect(merged.revision == (j > i ? max(account.revision, guest.revision) + 1 : account.revision))
      }
    }
  }

  @Test("U1: a definition has steps to show, each once, none newer than itself, and an end only at its end")
  func definitions() throws {
    func step(_ name: String, target: String = "path", since: Int64 = 1) throws -> GuideStep {
      GuideStep(
        id: try id(name), page: "home", target: target, messageKey: "", isReversed: true, sinceVersion: since)
    }
    let guide = try id("welcome")
    #expect(GuideDefinition(id: guide, version: 2, steps: [try step("a"), try step("b", since: 2)]) != nil)
    #expect(GuideDefinition(id: guide, version: 1, steps: []) == nil)
    #expect(GuideDefinition(id: guide, version: 0, steps: [try step("a")]) == nil)
    #expect(GuideDefinition(id: guide, version: 1, steps: [try step("a"), try step("a")]) == nil)
    #expect(GuideDefinition(id: guide, version: 1, steps: [try step("a", since: 2)]) == nil)
    #expect(GuideDefinition(id: guide, version: 1, steps: [try step("a", target: "")]) == nil)
    let early = [try step("a"), try step("b", target: ""), try step("c")]
    #expect(GuideDefinition(id: guide, version: 1, steps: early) == nil)
  }
}
