internal import NIOCore
internal import Transport

/// Shares one event loop between its connections.
///
/// A connection works at once on what its socket brings, for the length of a turn. What is left then waits here with
/// that of others, for turns one after the other; between their rounds the loop looks at its sockets. So a connection
/// that asks for much waits for itself, and one that asks for little does not wait for it.
///
///     look at the sockets ──▶ prompt work, of all together ──▶ a round: turns, then chores ──▶ look at the sockets
final class LoopTurns: ChoreQueue, @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  let eventLoop: any EventLoop
  /// Those who wait for a turn, each with the work that was done when the wait began.
  private var waiting = CircularBuffer<(taker: any TurnTaker, since: TimeAmount)>()
  /// What has to be done some time soon, and for which nobody waits.
  private var chores = CircularBuffer<() -> Void>()
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
    chores.append(chore)
    scheduleRound()
  }

  /// What is counted so far, with the work that is being done.
  private var counted: TimeAmount { countingFrom.map { total + (eventLoop.now - $0) } ?? total }

  /// How long the loop has worked since the one that is next began to wait for its turn: about as long waits who comes
  /// while there is steadily too much to do.
  var wait: TimeAmount { waiting.first.map { counted - $0.since } ?? .zero }

  /// Gives `taker` turns until it has nothing left to do.
  func wait(_ taker: any TurnTaker) {
    waiting.append((taker, counted))
    scheduleRound()
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
        guard let (taker, _) = waiting.popFirst() else { break }
        if taker.takeTurn(until: self.end(ofTurnFrom: eventLoop.now)) { waiting.append((taker, counted)) }
        if eventLoop.now >= end { break }
      }
      doChores(until: max(end, eventLoop.now + Limits.chores))
    }
    refused.look(at: eventLoop.now, wait: wait, worked: total)
    if !waiting.isEmpty || !chores.isEmpty {
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
}
