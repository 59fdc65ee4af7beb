/// How far a person has come in a guide.
///
///     notStarted ──shown──▶ active ──done or skipped, at each step──▶ completed
///         ▲                   │                                          │
///         └───────────────────┴───────────────── reset ──────────────────┘
///
/// The step is kept by its id and by its place: a newer version of the guide may have steps before it, or not have it
/// any more.
package struct GuideProgress: Sendable, Equatable {
  /// Stored: never renumbered.
  package enum Status: Int64, Sendable, CaseIterable {
    case notStarted = 0
    case active = 1
    case completed = 2
  }

  package enum Outcome: Sendable, CaseIterable {
    case shown
    case done
    case skipped
  }

  /// What came of a report.
  package enum Transition: Sendable, Equatable {
    case changed
    /// It was so before: a repeated report.
    case already
    /// The reporter knows an older or newer progress.
    case revisionMismatch
    /// Nothing of the guide has been shown yet, so there is nothing to go on from.
    case notStarted
    /// The step comes later.
    case notCurrent
    case unknownStep
  }

  package private(set) var status: Status
  /// Steps that lie behind, by the version that was used last.
  package private(set) var position: Int
  /// The current step, by its id; nil before the start and after the end.
  package private(set) var step: GuideID?
  /// Counts the changes.
  package private(set) var revision: Int64

  package init(status: Status = .notStarted, position: Int = 0, step: GuideID? = nil, revision: Int64 = 0) {
    self.status = status
    self.position = position
    self.step = step
    self.revision = revision
  }

  /// The place of the current step in a definition; the number of its steps when all lie behind.
  package func cursor(in guide: GuideDefinition) -> Int {
    if let step, let index = guide.index(of: step) { return index }
    return min(position, guide.steps.count)
  }

  /// Takes a report in. Says no without a change unless the revision is the one that the reporter knows; what is so
  /// already needs no revision, because the answer to the report that made it so may have been lost.
  package mutating func report(
    _ outcome: Outcome, of stepID: GuideID, in guide: GuideDefinition, expecting expected: Int64
  ) -> Transition {
    guard let index = guide.index(of: stepID) else { return .unknownStep }
    if status == .completed { return .already }
    let current = cursor(in: guide)
    if index < current || (index == current && outcome == .shown && status == .active) { return .already }
    guard expected == revision else { return .revisionMismatch }
    guard status == .active || outcome == .shown else { return .notStarted }
    guard index == current else { return .notCurrent }
    switch outcome {
    case .shown: move(to: index, in: guide)
    case .done, .skipped: move(to: index + 1, in: guide)
    }
    revision += 1
    return .changed
  }

  /// False when there is nothing to undo. The revision goes on counting, so that a report from before is refused.
  package mutating func reset() -> Bool {
    guard status != .notStarted else { return false }
    status = .notStarted
    position = 0
    step = nil
    revision += 1
    return true
  }

  /// Takes in what the same person did as a guest: whoever came further wins, and completed wins over all. False when
  /// nothing changed.
  package mutating func merge(_ guest: GuideProgress) -> Bool {
    guard status != .completed, (guest.status.rawValue, guest.position) > (status.rawValue, position) else {
      return false
    }
    status = guest.status
    position = guest.position
    step = guest.step
    revision = max(revision, guest.revision) + 1
    return true
  }

  private mutating func move(to index: Int, in guide: GuideDefinition) {
    position = index
    if index >= guide.steps.count || guide.steps[index].isEnd {
      status = .completed
      step = nil
    } else {
      status = .active
      step = guide.steps[index].id
    }
  }
}
