import Callers
import DequeModule
import Storage

/// What waits for a connection. Changes are taken in groups by a few connections at a time, and lookups by others, so that
/// groups form while those are busy; a lone one is taken at once. While a group of a kind is on its way the next one begins when
/// it is full, or somewhat later, so that a few callers make one group and not one for each connection.
struct PostgreSQLQueue {
  struct Work {
    /// `alone` for a change that is not to be in a group as well.
    let kind: OperationKind
    let operations: [any QueuedOperation]
  }

  private var urgent: Deque<any QueuedOperation> = []
  private var alone: Deque<any QueuedOperation> = []
  private var changes: Deque<any QueuedOperation> = []
  private var lookups: Deque<any QueuedOperation> = []
  /// Of sources that have far less waiting than another, and found no room: done by turns with all others.
  private var few: Deque<any QueuedOperation> = []
  private var wasOfFew = false
  /// Tells those who let calls in whether more waits than can be done in time, and whose that is.
  private let backlog: Backlog
  private let bounds: WaitingRule.Bounds?
  /// Nil where only the capacity counts.
  private var rule: WaitingRule?
  /// Done since the rule was last told.
  private var done = 0
  private var hadRested = true
  /// Connections that have a group of each kind.
  private var lanes: (changes: Int, lookups: Int) = (0, 0)
  /// When the last group of each kind began.
  private var begun: (changes: ContinuousClock.Instant?, lookups: ContinuousClock.Instant?)
  /// How many the last group of each kind had: about as many are likely to come again.
  private var last: (changes: Int, lookups: Int) = (0, 0)
  /// Until then each change is done by itself.
  private var pause = ContinuousClock.now

  /// - Parameter bounds: how long may be waited; nil for as long as it takes.
  init(bounds: WaitingRule.Bounds? = nil, backlog: Backlog = Backlog()) {
    self.bounds = bounds
    self.backlog = backlog
    rule = bounds.map { WaitingRule($0) }
  }

  var count: Int { urgent.count + alone.count + changes.count + lookups.count + few.count }

  /// When what waited longest was asked for, of those that are not urgent.
  private var first: ContinuousClock.Instant? {
    if count == 0 { return nil }
    return [alone.first, changes.first, lookups.first].compactMap { $0?.asked }.min()
  }

  var hasUrgent: Bool { !urgent.isEmpty }

  /// Of what the rule is about.
  private var waiting: Int { alone.count + changes.count + lookups.count }

  /// Whether one more may wait that is neither urgent nor of the few.
  mutating func admits(at now: ContinuousClock.Instant) -> Bool {
    let hasPlace = count < Limits.waiting
    guard rule != nil else { return hasPlace }
    let (waiting, first) = (waiting, first)
    let isAdmitted = rule?.admits(waiting: waiting, first: first, hasPlace: hasPlace, at: now)
    if isAdmitted == false { backlog.isLong = true }
    return isAdmitted ?? hasPlace
  }

  /// Takes one although there is no room. False: it is its own source's doing, or that of nobody in particular.
  mutating func appendOfFew(_ operation: any QueuedOperation) -> Bool {
    guard backlog.enterOfFew(operation.holder) else { return false }
    few.append(operation)
    return true
  }

  mutating func append(_ operation: any QueuedOperation) {
    backlog.entered(operation.holder)
    switch operation.kind {
    case _ where operation.isUrgent: urgent.append(operation)
    case .alone: alone.append(operation)
    case .change: changes.append(operation)
    case .lookup: lookups.append(operation)
    }
  }

  /// Puts operations back where they were, behind what is urgent.
  mutating func prepend(_ operations: [any QueuedOperation]) {
    for operation in operations.reversed() {
      backlog.entered(operation.holder)
      switch operation.kind {
      case _ where operation.isUrgent: urgent.prepend(operation)
      case .alone: alone.prepend(operation)
      case .change: changes.prepend(operation)
      case .lookup: lookups.prepend(operation)
      }
    }
  }

  mutating func removeAll() -> [any QueuedOperation] {
    defer { (urgent, alone, changes, lookups, few) = ([], [], [], [], []) }
    let shared = Array(urgent) + Array(alone) + Array(changes) + Array(lookups)
    for operation in shared { backlog.left(operation.holder) }
    for operation in few { backlog.leftOfFew(operation.holder) }
    rule = bounds.map { WaitingRule($0) }
    backlog.isLong = false
    return shared + Array(few)
  }

  private enum Source { case urgent, few, alone, changes, lookups }

  private func source(at now: ContinuousClock.Instant) -> Source? {
    if !urgent.isEmpty { return .urgent }
    var found: (source: Source, asked: ContinuousClock.Instant)?
    func consider(_ operation: (any QueuedOperation)?, _ source: Source) {
      guard let operation, found.map({ operation.asked < $0.asked }) ?? true else { return }
      found = (source, operation.asked)
    }
    consider(alone.first, .alone)
    if now < pause || changesReady.map({ $0 <= now }) ?? false { consider(changes.first, .changes) }
    if lookupsReady.map({ $0 <= now }) ?? false { consider(lookups.first, .lookups) }
    if !few.isEmpty, !wasOfFew || found == nil { return .few }
    return found?.source
  }

  /// From when on a group of changes may begin; nil while none may, or nothing waits.
  private var changesReady: ContinuousClock.Instant? {
    Self.ready(changes, lanes.changes, of: Limits.changeLanes, after: begun.changes)
  }

  private var lookupsReady: ContinuousClock.Instant? {
    Self.ready(lookups, lanes.lookups, of: Limits.lookupLanes, after: begun.lookups)
  }

  private static func ready(
    _ waiting: Deque<any QueuedOperation>, _ lanes: Int, of most: Int, after begun: ContinuousClock.Instant?
  ) -> ContinuousClock.Instant? {
    guard lanes < most, let first = waiting.first else { return nil }
    guard lanes > 0, let begun else { return first.asked }
    return waiting.count < Limits.groupOperations ? begun + Limits.groupOverlap : begun
  }

  /// When something may be begun that waits for more of its kind; nil when there is none such, or it is ready.
  func held(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    [changesReady, lookupsReady].compactMap { $0 }.filter { $0 > now }.min()
  }

  /// Whether some wait, and fewer than were done together last.
  var isGathering: Bool {
    (1..<max(1, last.changes)).contains(changes.count) || (1..<max(1, last.lookups)).contains(lookups.count)
  }

  /// Whether somebody should come for work.
  func isReady(at now: ContinuousClock.Instant) -> Bool { source(at: now) != nil }

  /// What is to be done next. It is over when ``finished(_:)`` says so.
  mutating func next(at now: ContinuousClock.Instant = .now) -> Work? {
    let source = source(at: now)
    let work = next(of: source, at: now)
    for operation in work?.operations ?? [] {
      if source == .few { backlog.leftOfFew(operation.holder) } else { backlog.left(operation.holder) }
    }
    if work != nil { tellRule(at: now) } else if count == 0 { hadRested = true }
    return work
  }

  private mutating func tellRule(at now: ContinuousClock.Instant) {
    guard rule != nil else { return }
    let (waiting, first, done, hadRested) = (waiting, first, done, hadRested)
    rule?.taken(done: done, hadRested: hadRested, left: waiting, first: first, at: now)
    backlog.isLong = rule?.isFull ?? false
    (self.done, self.hadRested) = (0, false)
  }

  private mutating func next(of source: Source?, at now: ContinuousClock.Instant) -> Work? {
    if source != .urgent { wasOfFew = source == .few }
    switch source {
    case .urgent: return Work(kind: .alone, operations: Self.take(&urgent, 1))
    case .few: return Work(kind: .alone, operations: Self.take(&few, 1))
    case .alone: return Work(kind: .alone, operations: Self.take(&alone, 1))
    case .changes where now < pause: return Work(kind: .alone, operations: Self.take(&changes, 1))
    case .changes:
      lanes.changes += 1
      begun.changes = now
      let group = Self.take(&changes, Limits.groupOperations)
      last.changes = group.count
      return Work(kind: .change, operations: group)
    case .lookups:
      lanes.lookups += 1
      begun.lookups = now
      let group = Self.take(&lookups, Limits.groupOperations)
      last.lookups = group.count
      return Work(kind: .lookup, operations: group)
    case nil: return nil
    }
  }

  private static func take(_ waiting: inout Deque<any QueuedOperation>, _ limit: Int) -> [any QueuedOperation] {
    let count = min(waiting.count, limit)
    defer { waiting.removeFirst(count) }
    return Array(waiting.prefix(count))
  }

  /// - Parameter done: how many of it were worked on, and not dropped.
  mutating func finished(_ work: Work, done: Int) {
    self.done += done
    switch work.kind {
    case .alone: break
    case .change: lanes.changes -= 1
    case .lookup: lanes.lookups -= 1
    }
  }

  /// A group was undone: each change is done by itself for a while.
  mutating func pauseGroups() { pause = .now + Limits.groupPause }
}
