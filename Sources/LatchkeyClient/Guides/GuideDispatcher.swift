/// Follows a guide on this device: says which step a page shows, and what to tell the service.
///
/// ```
///              page appears that the current step is for
///  waiting ─────────────────────────────────────────────▶ showing(step)
///     ▲                  next(), or another page              │
///     └───────────────────────────────────────────────────────┘
///  the end step, or a completed guide: finished for good
/// ```
/// A pure state machine: the app gives it events and does what the returned actions say.
public struct GuideDispatcher: Sendable, Equatable {
  public enum Action: Sendable, Equatable {
    case show(GuideView.Step)
    case hide
    /// Tell the service what became of the step with this id.
    case report(step: String, GuideOutcome)
    /// Nothing is left to show: free the views and listen no more.
    case finish
  }

  private enum State: Equatable {
    case waiting
    case showing
    case finished
  }

  private let steps: [GuideView.Step]
  private var cursor: Int
  private var state: State
  private var page: String?

  /// A guide that is completed takes no events.
  public init(_ guide: GuideView) {
    steps = guide.steps
    cursor = max(0, guide.cursor)
    state = guide.status == .completed || !steps.indices.contains(max(0, guide.cursor)) ? .finished : .waiting
  }

  public var isFinished: Bool { state == .finished }

  /// A page came to the front. What was shown for another page is hidden first.
  public mutating func pageDidAppear(_ page: String) -> [Action] {
    guard state != .finished else { return [] }
    let isAgain = self.page == page && state == .showing
    self.page = page
    if isAgain { return [] }
    var actions: [Action] = []
    if state == .showing {
      actions.append(.hide)
      state = .waiting
    }
    return actions + showIfDue()
  }

  /// The person goes on. Before any step is shown this does nothing.
  public mutating func next() -> [Action] {
    guard state == .showing else { return [] }
    let done = steps[cursor]
    cursor += 1
    state = .waiting
    let actions: [Action] = [.hide, .report(step: done.id, .done)]
    guard steps.indices.contains(cursor) else {
      state = .finished
      return actions + [.finish]
    }
    return actions + showIfDue()
  }

  private mutating func showIfDue() -> [Action] {
    let step = steps[cursor]
    guard step.page == page else { return [] }
    guard !step.target.isEmpty else {
      // The end: it points at nothing.
      state = .finished
      return [.report(step: step.id, .done), .finish]
    }
    state = .showing
    return [.show(step), .report(step: step.id, .shown)]
  }
}
