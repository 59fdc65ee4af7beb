internal import NIOCore

/// Shares one event loop between its connections.
///
/// A connection works at once on what its socket brings, for the length of a turn. What is left then waits here with
/// that of others, for turns one after the other; between their rounds the loop looks at its sockets. So a connection
/// that asks for much waits for itself, and one that asks for little does not wait for it.
final class LoopTurns: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  let eventLoop: any EventLoop
  private var waiting = CircularBuffer<any TurnTaker>()
  private var isRoundScheduled = false
  /// Since when the turns of tasks are counted that were taken without waiting, and how long they were together.
  private var countedFrom = NIODeadline.uptimeNanoseconds(0)
  private var taken = TimeAmount.zero

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

  /// Whether a connection's tasks may run without waiting. Each alone has a turn, but all that came with one look at the
  /// sockets run before the next.
  func admitsTasks(at now: NIODeadline) -> Bool {
    if now - countedFrom > .nanoseconds(2 * taken.nanoseconds) {
      countedFrom = now
      taken = .zero
    }
    return taken < Limits.promptTasks
  }

  /// Tasks have run without waiting.
  func tasksTook(_ time: TimeAmount) {
    taken = taken + time
  }

  /// Gives `taker` turns until it has nothing left to do.
  func wait(_ taker: any TurnTaker) {
    waiting.append(taker)
    scheduleRound()
  }

  private func scheduleRound() {
    guard !isRoundScheduled else { return }
    isRoundScheduled = true
    // The loop runs every task that is ready before it looks at its sockets, and what such a task submits as well: only
    // something in the future lets it. That future begins once the tasks of this round have run, which write its
    // answers, and what they submit.
    eventLoop.execute { [self] in
      eventLoop.execute { [self] in
        eventLoop.assumeIsolated().scheduleTask(in: Limits.roundPause) { self.takeRound() }
      }
    }
  }

  private func takeRound() {
    isRoundScheduled = false
    // The loop has looked at its sockets.
    taken = .zero
    let end = eventLoop.now + Limits.round
    for _ in 0..<waiting.count {
      guard let taker = waiting.popFirst() else { break }
      if taker.takeTurn(until: self.end(ofTurnFrom: eventLoop.now)) { waiting.append(taker) }
      if eventLoop.now >= end { break }
    }
    if !waiting.isEmpty { scheduleRound() }
  }
}
