internal import Callers
internal import NIOCore

/// Shares one event loop between its connections.
///
/// A connection works at once on what its socket brings, for the length of a turn. What is left then waits here with
/// that of others, for turns one after the other, those of each source among themselves; between their rounds the loop
/// looks at its sockets. So a connection that asks for much waits for itself, and one that asks for little does not wait
/// for it, nor for the many connections of another source.
///
/// In a round those come first who go on with what is begun: where new calls always came before, each would wait again after
/// every step, for as long as all that has come meanwhile takes. They have up to three times as long as there was since the
/// round before, and each of the others a part of what they take.
///
///     look at the sockets ──▶ prompt work ──▶ a round: the begun ─▶ the new ─▶ chores ─▶ newcomers ──▶ look at the sockets
final class LoopTurns: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  let eventLoop: any EventLoop
  /// Those who wait for a turn to go on with what is begun, and with what is new.
  private var begun = SourceTurns<any TurnTaker>(turn: Limits.sourceTurn)
  private var new = SourceTurns<any TurnTaker>(turn: Limits.sourceTurn)
  /// What has to be done some time soon, and for which nobody waits. Most of it frees what others want, so that nobody's has
  /// to wait for anything else of the same source.
  private var chores = CircularBuffer<() -> Void>()
  /// New connections, which are not set up yet.
  private var newcomers = NewcomerTurns<() -> Void>()
  private var isRoundScheduled = false
  /// Since when somebody waits for it, from the end of the one before on.
  private var roundWaitsSince = NIODeadline.uptimeNanoseconds(0)
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
    end(ofTurnFrom: now, beside: begun.count + new.count)
  }

  private func end(ofTurnFrom now: NIODeadline, beside others: Int) -> NIODeadline {
    now + max(.nanoseconds(Limits.turn.nanoseconds / Int64(others + 1)), Limits.shortestTurn)
  }

  /// Whether so many wait for their turns that who has much to do had better do the same.
  var isCrowded: Bool { begun.count + new.count >= Limits.crowd }

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

  /// The loop has looked at its sockets, and those had their turns who go on with something: that does not take the place of
  /// what is done promptly.
  private func hasLooked() {
    countedFrom = eventLoop.now
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
  var counted: TimeAmount { countingFrom.map { total + (eventLoop.now - $0) } ?? total }

  /// About how long somebody of the source waits for a turn who comes while there is steadily too much to do: counted in
  /// the loop's work.
  func wait(of source: TurnSource) -> TimeAmount {
    // As it mostly is: each read asks.
    if begun.isEmpty, new.isEmpty { return .zero }
    let now = counted
    return max(begun.wait(of: source, at: now), new.wait(of: source, at: now))
  }

  /// Gives `taker` turns until it has nothing left to do.
  func wait(_ taker: any TurnTaker) {
    append(taker)
    scheduleRound()
  }

  private func append(_ taker: any TurnTaker) {
    if taker.isBegun {
      begun.append(taker, of: taker.source, at: counted)
    } else {
      new.append(taker, of: taker.source, at: counted)
    }
  }

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
    roundWaitsSince = eventLoop.now
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
    let start = eventLoop.now
    counting { goOn(from: start) }
    hasLooked()
    counting { takeTurnsOfOthers(behind: countedFrom - start, from: start) }
    taken = min(taken, Limits.round)
    refused.look(at: eventLoop.now, worked: total) { [self] in wait(of: $0) }
    roundWaitsSince = eventLoop.now
    if !begun.isEmpty || !new.isEmpty || !chores.isEmpty || !newcomers.isEmpty {
      scheduleRound()
    } else if !refused.isEmpty {
      scheduleLook()
    }
  }

  /// Those who go on with something have the same part each of the time that there is for it.
  private func goOn(from start: NIODeadline) {
    guard !begun.isEmpty else { return }
    let time = Self.timeToGoOn(after: start - roundWaitsSince)
    let turn = min(max(.nanoseconds(time.nanoseconds / Int64(begun.count)), Limits.shortestTurn), Limits.turn)
    // Some have several turns, if there is time for them.
    for _ in 0..<max(begun.count, Int(time.nanoseconds / Limits.shortestTurn.nanoseconds)) {
      guard let taker = begun.popFirst(at: counted) else { return }
      // Who was sent something meanwhile has something new.
      if !taker.isBegun || taker.takeTurn(until: eventLoop.now + turn) { append(taker) }
      if eventLoop.now >= start + time { return }
    }
  }

  /// How long those may take who go on with something, which was not done since the round before, `time` ago.
  static func timeToGoOn(after time: TimeAmount) -> TimeAmount {
    min(max(.nanoseconds(3 * time.nanoseconds), Limits.round), Limits.longestGoingOn)
  }

  /// However long others went on with something, all else has a part of that time.
  private func takeTurnsOfOthers(behind goingOn: TimeAmount, from start: NIODeadline) {
    let part = TimeAmount.nanoseconds(goingOn.nanoseconds / Limits.partOfGoingOn)
    let end = max(start + Limits.round, countedFrom + max(.nanoseconds(Limits.round.nanoseconds / 2), part))
    beginNew(until: end)
    let chore = chores.count < Limits.manyChores ? Limits.chores : Limits.round
    doChores(until: max(end, eventLoop.now + max(chore, part)))
    letIn(until: max(end, eventLoop.now + max(Limits.newcomers, part)))
  }

  private func beginNew(until end: NIODeadline) {
    for _ in 0..<new.count {
      guard let taker = new.popFirst(at: counted) else { return }
      if taker.takeTurn(until: self.end(ofTurnFrom: eventLoop.now, beside: new.count)) { append(taker) }
      if eventLoop.now >= end { return }
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
