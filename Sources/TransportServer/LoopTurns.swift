internal import Callers
internal import NIOCore

/// Shares one event loop between its connections.
///
/// A connection works at once on what its socket brings, for the length of a turn. What is left then waits here with
/// that of others, for turns one after the other, those of each source among themselves; between their rounds the loop
/// looks at its sockets. So a connection that asks for much waits for itself, and one that asks for little does not wait
/// for it, nor for the many connections of another source.
///
///     look at the sockets ──▶ prompt work, of all together ──▶ a round: turns, then chores ──▶ look at the sockets
final class LoopTurns: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  let eventLoop: any EventLoop
  /// Those who wait for a turn.
  private var waiting = SourceTurns<any TurnTaker>(turn: Limits.sourceTurn)
  /// What has to be done some time soon, and for which nobody waits. Most of it frees what others want, so that nobody's has
  /// to wait for anything else of the same source.
  private var chores = CircularBuffer<() -> Void>()
  /// New connections, which are not set up yet.
  private var newcomers = NewcomerTurns<() -> Void>()
  private var isRoundScheduled = false
  /// Since when the work is counted that was done since the loop looked at its sockets, and how long it took.
  private var countedFrom = NIODeadline.uptimeNanoseconds(0)
  private var taken = TimeAmount.zero
  /// Pieces of work that were counted.
  private var works = 0
  /// How long all that was counted took since the loop began.
  private(set) var total = TimeAmount.zero
  /// Since when work is being done that is counted as a whole.
  private var countingFrom: NIODeadline?
  /// Connections of which calls were refused.
  private let refused = RefusedLine()
  private var isLookScheduled = false
  private var isTellingAll = false
  private(set) lazy var timers = LoopTimers(self)
  let readBuffers = ReadBuffers()

  init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
  }

  /// When a turn that begins now has to end. The more wait for theirs the shorter it is, so that many who come at once
  /// with too much take little longer than one.
  func end(ofTurnFrom now: NIODeadline) -> NIODeadline {
    guard !waiting.isEmpty else { return now + Limits.turn }
    let share = Limits.turn.nanoseconds / Int64(waiting.count + 1)
    return now + max(.nanoseconds(share), Limits.shortestTurn)
  }

  /// Whether so many wait for their turns that who has much to do had better do the same.
  var isCrowded: Bool { waiting.count >= Limits.crowd }

  /// Whether work that can wait may be done at once. Each connection keeps to its turn, but all that one look at the
  /// sockets brought comes before the next.
  func admits(at now: NIODeadline) -> Bool {
    countAgain(at: now)
    return taken < Limits.promptWork
  }

  /// A loop that was idle for most of the time has looked.
  private func countAgain(at now: NIODeadline) {
    guard now - countedFrom > .nanoseconds(4 * taken.nanoseconds) else { return }
    countedFrom = now
    taken = .zero
  }

  /// Work was done since the loop looked at its sockets.
  func worked(from start: NIODeadline, until end: NIODeadline) {
    guard countingFrom == nil else { return }
    countAgain(at: start)
    taken = taken + (end - start)
    total = total + (end - start)
    works &+= 1
  }

  /// Does work that counts, and what comes of it with it.
  private func counting(_ work: () -> Void) {
    let start = eventLoop.now
    countingFrom = start
    work()
    countingFrom = nil
    worked(from: start, until: eventLoop.now)
  }

  /// Does `work` at once if there is time for it, and counts it. False when it has to wait.
  func promptly(_ work: () -> Void) -> Bool {
    guard countingFrom == nil else {
      work()
      return true
    }
    guard admits(at: eventLoop.now) else { return false }
    counting(work)
    return true
  }

  /// Does `chore` at once, or when those who wait for turns have had theirs.
  func soon(_ chore: @escaping () -> Void) {
    guard !chores.isEmpty || !promptly(chore) else { return }
    later(chore)
  }

  /// Does `chore` when those who wait for turns have had theirs.
  func later(_ chore: @escaping () -> Void) {
    chores.append(chore)
    scheduleRound()
  }

  /// Does `work` for a new connection at once, or behind the chores, by turns of the sources.
  func soonForNewcomer(of source: TurnSource, _ work: @escaping () -> Void) {
    guard !newcomers.isEmpty || !promptly(work) else { return }
    newcomers.append(work, of: source)
    scheduleRound()
  }

  /// Does `work` for each connection, some at a time, when there is time for it. Unless that is still under way for others.
  func tellAll(_ connections: [any Channel], _ work: @escaping (any Channel) -> Void) {
    guard !isTellingAll else { return }
    isTellingAll = true
    tell(connections[...], work)
  }

  private func tell(_ connections: ArraySlice<any Channel>, _ work: @escaping (any Channel) -> Void) {
    later { [self] in
      for connection in connections.prefix(Limits.toldAtOnce) { work(connection) }
      let rest = connections.dropFirst(Limits.toldAtOnce)
      if rest.isEmpty { isTellingAll = false } else { tell(rest, work) }
    }
  }

  /// Does `work` beyond what is done promptly, but for no more than as much again. False when it has to wait.
  func beyond(_ work: () -> Void) -> Bool {
    countAgain(at: eventLoop.now)
    guard taken < Limits.promptWork + Limits.promptWork else { return false }
    anyway(work)
    return true
  }

  /// Does `work` whether there is time for it or not, and counts it.
  func anyway(_ work: () -> Void) {
    if countingFrom == nil { counting(work) } else { work() }
  }

  /// What is counted so far, with the work that is being done.
  private var counted: TimeAmount { countingFrom.map { total + (eventLoop.now - $0) } ?? total }

  /// About how long somebody of the source waits for a turn who comes while there is steadily too much to do: counted in
  /// the loop's work.
  func wait(of source: TurnSource) -> TimeAmount { waiting.wait(of: source, at: counted) }

  /// Gives `taker` turns until it has nothing left to do.
  func wait(_ taker: any TurnTaker) {
    append(taker)
    scheduleRound()
  }

  private func append(_ taker: any TurnTaker) { waiting.append(taker, of: taker.source, at: counted) }

  /// Leaves a connection unread of which a call was refused, until there is room or for a while.
  func leaveUnread(_ connection: any LineMember, _ reason: RefusedLine.Reason) {
    refused.append(connection, reason, at: eventLoop.now)
    scheduleLook()
  }

  /// There is no round while nobody waits for a turn.
  private func scheduleLook() {
    guard !isRoundScheduled, !isLookScheduled else { return }
    isLookScheduled = true
    eventLoop.assumeIsolated().scheduleTask(in: Limits.looksAtLine) { [self] in
      isLookScheduled = false
      scheduleRound()
    }
  }

  private func scheduleRound() {
    guard !isRoundScheduled else { return }
    isRoundScheduled = true
    waitForSockets()
  }

  private func waitForSockets() {
    let seen = works
    // The loop runs every task that is ready before it looks at its sockets, and what such a task submits as well: only
    // something in the future lets it. That future begins once the tasks of this round have run, which write its
    // answers, and what they submit: later than any work, or it would be there before the loop gets to look.
    eventLoop.execute { [self] in
      eventLoop.execute { [self] in
        guard works == seen else { return waitForSockets() }
        eventLoop.assumeIsolated().scheduleTask(in: Limits.roundPause) { self.takeRound() }
      }
    }
  }

  private func takeRound() {
    isRoundScheduled = false
    // The loop has looked at its sockets.
    countedFrom = eventLoop.now
    taken = .zero
    counting {
      let end = countedFrom + Limits.round
      for _ in 0..<waiting.count {
        guard let taker = waiting.popFirst(at: counted) else { break }
        if taker.takeTurn(until: self.end(ofTurnFrom: eventLoop.now)) { append(taker) }
        if eventLoop.now >= end { break }
      }
      doChores(until: max(end, eventLoop.now + (chores.count < Limits.manyChores ? Limits.chores : Limits.round)))
      letIn(until: max(end, eventLoop.now + Limits.newcomers))
    }
    refused.look(at: eventLoop.now, worked: total) { [self] in wait(of: $0) }
    if !waiting.isEmpty || !chores.isEmpty || !newcomers.isEmpty {
      scheduleRound()
    } else if !refused.isEmpty {
      scheduleLook()
    }
  }

  private func doChores(until end: NIODeadline) {
    while let chore = chores.popFirst() {
      chore()
      if eventLoop.now >= end { return }
    }
  }

  private func letIn(until end: NIODeadline) {
    while let work = newcomers.popFirst() {
      work()
      if eventLoop.now >= end { return }
    }
  }
}
